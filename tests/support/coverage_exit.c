/* Linked with redlock(1) in a build that counts lines: a process that ends by _exit(2) keeps its counters, too. */
void __gcov_dump(void);
_Noreturn void __real__exit(int status);
_Noreturn void __wrap__exit(int status);

void __wrap__exit(int status)
{
    __gcov_dump();
    __real__exit(status);
}

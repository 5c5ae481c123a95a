/* A private directory for a test. It is removed with its contents when the test ends, however it ends. */
#ifndef TESTS_SUPPORT_TEMP_DIR_H
#define TESTS_SUPPORT_TEMP_DIR_H

struct temp_dir;

/* Under TMPDIR, or /tmp. Registers itself for fixtures_end(). */
struct temp_dir *temp_dir_make(void);
const char *temp_dir_path(const struct temp_dir *dir);
/* NULL does nothing. */
void temp_dir_remove(struct temp_dir *dir);

#endif

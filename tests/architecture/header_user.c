/* The includes of a user's program. header.sh compiles it as C and as C++. It expands every macro of the public
 * header. */
#include <redlock/redlock.h>

/* A second include has no effect. */
#include <redlock/redlock.h>

int main(void)
{
    redlock_options options = REDLOCK_OPTIONS_INIT;
    redlock_acquire_options acquire = REDLOCK_ACQUIRE_OPTIONS_INIT;
    acquire.wait_ms = REDLOCK_FOREVER;
    redlock_call_options call = REDLOCK_CALL_OPTIONS_INIT;
#ifndef __cplusplus
    acquire = *REDLOCK_WAIT_MS(5000);
    acquire = *REDLOCK_ACQUIRE_WITH(.fence = 1);
    call = *REDLOCK_TIMEOUT_MS(100);
#endif
    int grants = (REDLOCK_FINDING_FULL & REDLOCK_FINDINGS_UNFIT) == 0;
    return grants && options.struct_size == REDLOCK_STRUCT_SIZE(redlock_options) && acquire.struct_size > 0 &&
                   call.struct_size > 0
               ? 0
               : 1;
}

/* A row with its token. The UPDATE matches only for the same or a larger token. */
#include <sqlite3.h>
#include <stdio.h>

#include "store.h"

static const char make[] = "CREATE TABLE IF NOT EXISTS store (id INTEGER PRIMARY KEY, value TEXT, fence INTEGER);"
                           "INSERT OR IGNORE INTO store VALUES (1, '', 0);";
static const char update[] = "UPDATE store SET value = ?1, fence = ?2 WHERE id = 1 AND fence <= ?2";
static const char look[] = "SELECT fence FROM store WHERE id = 1";

static enum store_outcome failed(sqlite3 *database)
{
    fprintf(stderr, "sqlite: %s\n", sqlite3_errmsg(database));
    return STORE_FAILED;
}

static enum store_outcome refused(sqlite3 *database, uint64_t *seen)
{
    sqlite3_stmt *statement = NULL;
    enum store_outcome outcome = STORE_REFUSED;
    if (sqlite3_prepare_v2(database, look, -1, &statement, NULL) != SQLITE_OK || sqlite3_step(statement) != SQLITE_ROW)
        outcome = failed(database);
    else
        *seen = (uint64_t)sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return outcome;
}

static enum store_outcome write_row(sqlite3 *database, const char *value, uint64_t fence, uint64_t *seen)
{
    sqlite3_stmt *statement = NULL;
    if (sqlite3_exec(database, make, NULL, NULL, NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(database, update, -1, &statement, NULL) != SQLITE_OK)
        return failed(database);
    sqlite3_bind_text(statement, 1, value, -1, SQLITE_STATIC);
    sqlite3_bind_int64(statement, 2, (sqlite3_int64)fence);
    int status = sqlite3_step(statement);
    sqlite3_finalize(statement);
    if (status != SQLITE_DONE)
        return failed(database);
    return sqlite3_changes(database) ? STORE_WRITTEN : refused(database, seen);
}

enum store_outcome store_write_sqlite(const char *file, const char *value, uint64_t fence, uint64_t *seen)
{
    sqlite3 *database = NULL;
    enum store_outcome outcome;
    if (sqlite3_open(file, &database) == SQLITE_OK) {
        sqlite3_busy_timeout(database, 5000);
        outcome = write_row(database, value, fence, seen);
    } else {
        outcome = failed(database);
    }
    sqlite3_close(database);
    return outcome;
}

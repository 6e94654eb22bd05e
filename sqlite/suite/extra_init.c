/* What SQLite's testfixture calls at each sqlite3_initialize, being compiled with
** -DSQLITE_EXTRA_INIT=ebbpool_suite_init: every database is opened through the VFS ebbpool from then on, if the
** environment variable EBBPOOL_SUITE is set. */
#include <stdlib.h>
#include "sqlite3.h"

struct ebbpool_sqlite_api {
  sqlite3_vfs *(*vfs_find)(const char *);
  int (*vfs_register)(sqlite3_vfs *, int);
  int (*open_v2)(const char *, sqlite3 **, int, const char *);
  int (*exec)(sqlite3 *, const char *, int (*)(void *, int, char **, char **), void *, char **);
  int (*close)(sqlite3 *);
  char *(*mprintf)(const char *, ...);
  void (*log)(int, const char *, ...);
  const char *(*uri_parameter)(const char *, const char *);
};

int ebbpool_sqlite_register(const struct ebbpool_sqlite_api *, int as_default);

int ebbpool_suite_init(const char *unused){
  static const struct ebbpool_sqlite_api api = {
    sqlite3_vfs_find, sqlite3_vfs_register, sqlite3_open_v2, sqlite3_exec, sqlite3_close,
    sqlite3_mprintf, sqlite3_log, sqlite3_uri_parameter,
  };
  (void)unused;
  return getenv("EBBPOOL_SUITE") ? ebbpool_sqlite_register(&api, 1) : SQLITE_OK;
}

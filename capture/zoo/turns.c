// Opens two databases in turns, so that the next connection often gets the memory of the one before, and prints how many pages
// each requested by SQLite's own count. With the argument "again" it becomes another run of itself first, after a line; with
// "leader" its first thread ends, after a line, and another one goes on; with "twice" it has loaded SQLite twice.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct sqlite3 sqlite3;
int sqlite3_open(const char *, sqlite3 **);
int sqlite3_close(sqlite3 *);
int sqlite3_exec(sqlite3 *, const char *, void *, void *, char **);
int sqlite3_db_status(sqlite3 *, int, int *, int *, int);

static long run(const char *path, const char *statement) {
    sqlite3 *database;
    int hits = 0, misses = 0, most;
    if (sqlite3_open(path, &database) || sqlite3_exec(database, statement, 0, 0, 0)) exit(1);
    sqlite3_db_status(database, 7, &hits, &most, 0);
    sqlite3_db_status(database, 8, &misses, &most, 0);
    sqlite3_close(database);
    return (long)hits + misses;
}

static void *work(void *nothing) {
    char line[16];
    long large = 0, small = 0;
    for (int turn = 0; turn < 200; turn++) {
        large += run("large.db", "select count(b) from t");
        small += run("small.db", "select count(b) from t");
    }
    printf("%ld %ld\ndone\n", large, small);
    fflush(stdout);
    fgets(line, sizeof line, stdin);
    exit(0);
    return nothing;
}

static void *go_on(void *nothing) {
    char line[16];
    usleep(300000);
    puts("ready");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin)) exit(1);
    return work(nothing);
}

int main(int count, char **words) {
    char line[16];
    pthread_t thread;
    const char *word = count > 1 ? words[1] : "";
    run("large.db",
        "create table if not exists t(a, b); insert into t with recursive n(i) as"
        " (select 1 union all select i + 1 from n where i < 2000) select i, hex(randomblob(50)) from n");
    run("small.db", "create table if not exists t(a, b); insert into t values(1, 2)");
    if (!strcmp(word, "twice") && !dlmopen(LM_ID_NEWLM, "libsqlite3.so.0", RTLD_NOW)) return 1;
    puts("ready");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin)) return 1;
    if (!strcmp(word, "again")) execl(words[0], words[0], (char *)0);
    if (!strcmp(word, "leader") && !pthread_create(&thread, 0, go_on, 0)) pthread_exit(0);
    work(0);
    return 0;
}

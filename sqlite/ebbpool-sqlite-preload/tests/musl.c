/* What ./release tests the libraries for musl with. From this file come three things:
 *
 * - without a macro a library that is linked with SQLite, as Python's _sqlite3 is; its function is `judge`
 * - with -DHOST a program without SQLite that loads such libraries: `host LIBRARY… -- MODE DATABASE [ROWS]` calls `judge` of
 *   each, with names DATABASE, DATABASE2 and so on
 * - with -DALLOCATOR a library to preload that has the functions of malloc, as jemalloc has them
 *
 * MODE  write    commits ROWS rows through the VFS, closes, and judges what plain SQLite reads in another process
 *       thread   the same in a thread with 128 KiB of stack, the least that musl gives one
 *       fork     the same; children write databases of their own through the VFS meanwhile
 *       leave    commits ROWS rows, prints the window, and ends without closing
 *       endless  commits until it is killed, and prints the number of each row after its commit
 *       recover  judges through the VFS, and prints the number of rows
 *       plain    judges without the VFS, and prints it
 *
 * EXTENSION names a library to load; without it the default VFS must be Ebbpool's. WAL asks for that mode. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEMAND(what) \
    do { if (!(what)) { fprintf(stderr, "line %d: %s\n", __LINE__, #what); _exit(1); } } while (0)

#if defined(ALLOCATOR)
/* It gives nothing twice, so that it has no locks, which a child could inherit. What another library frees here and has not from
 * here ends the process. */
static char *begin;
static size_t used;
static const size_t MARK = 0x65626270, MOST = (size_t)4 << 30;
void *aligned_alloc(size_t alignment, size_t bytes) {
    if (!__atomic_load_n(&begin, __ATOMIC_ACQUIRE)) {
        char *none = 0, *all = mmap(0, MOST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        DEMAND(all != MAP_FAILED);
        if (!__atomic_compare_exchange_n(&begin, &none, all, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) munmap(all, MOST);
    }
    if (alignment < 16) alignment = 16;
    size_t at = __atomic_fetch_add(&used, bytes + alignment + 32, __ATOMIC_RELAXED);
    DEMAND(bytes < MOST && at < MOST - bytes - alignment - 32);
    char *place = (char *)(((uintptr_t)begin + at + 16 + alignment - 1) & ~(alignment - 1));
    ((size_t *)place)[-2] = MARK;
    ((size_t *)place)[-1] = bytes;
    return place;
}
__attribute__((destructor)) static void report(void) { fprintf(stderr, "the allocator gave %zu bytes\n", used); }
void *memalign(size_t alignment, size_t bytes) { return aligned_alloc(alignment, bytes); }
int posix_memalign(void **place, size_t alignment, size_t bytes) { return *place = aligned_alloc(alignment, bytes), 0; }
void *malloc(size_t bytes) { return aligned_alloc(16, bytes); }
void *calloc(size_t count, size_t bytes) { return memset(malloc(count * bytes), 0, count * bytes); }
size_t malloc_usable_size(void *place) { return place ? ((size_t *)place)[-1] : 0; }
void free(void *place) {
    DEMAND(!place || ((size_t *)place)[-2] == MARK);
    if (place) memset(place, 0xdd, malloc_usable_size(place));
}
void *realloc(void *place, size_t bytes) {
    size_t before = malloc_usable_size(place);
    void *other = memcpy(malloc(bytes), place, before < bytes ? before : bytes);
    free(place);
    return other;
}
#elif defined(HOST)
int main(int count, char **arguments) {
    char name[4096];
    int modules = 1, failed = 0;
    while (modules < count && strcmp(arguments[modules], "--")) modules++;
    DEMAND(modules + 2 < count);
    for (int module = 1; module < modules; module++) {
        void *loaded = dlopen(arguments[module], RTLD_NOW | RTLD_LOCAL);
        if (!loaded) fprintf(stderr, "%s\n", dlerror());
        DEMAND(loaded);
        int (*judge)(const char *, const char *, long) = (int (*)(const char *, const char *, long))dlsym(loaded, "judge");
        DEMAND(judge);
        snprintf(name, sizeof name, module > 1 ? "%s%d" : "%s", arguments[modules + 2], module);
        failed |= judge(arguments[modules + 1], name, modules + 3 < count ? atol(arguments[modules + 3]) : 100);
    }
    return failed;
}
#else
#include <sqlite3.h>

#define STACK (128 * 1024)

static long long number(sqlite3 *db, const char *sql) {
    sqlite3_stmt *statement;
    DEMAND(sqlite3_prepare_v2(db, sql, -1, &statement, 0) == SQLITE_OK);
    DEMAND(sqlite3_step(statement) == SQLITE_ROW);
    long long found = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return found;
}

static void run(sqlite3 *db, const char *sql) {
    char *message = 0;
    if (sqlite3_exec(db, sql, 0, 0, &message) != SQLITE_OK) fprintf(stderr, "%s: %s\n", sql, message);
    DEMAND(!message);
}

/* Each of SQLite's three functions in turn, where a name needs no parameters. */
static sqlite3 *opened(const char *path, int through) {
    static int calls;
    unsigned short wide[4096];
    char uri[4200], *vfs = 0;
    sqlite3 *db = 0;
    sqlite3_int64 before = sqlite3_memory_used();
    int code, by_name = through && !getenv("EXTENSION");
    for (size_t at = 0; at <= strlen(path); at++) wide[at] = (unsigned char)path[at];
    snprintf(uri, sizeof uri, through ? "file:%s?vfs=ebbpool" : "file:%s?vfs=unix", path);
    switch (by_name ? calls++ % 3 : 3) {
        case 0: code = sqlite3_open(path, &db); break;
        case 1: code = sqlite3_open16(wide, &db); break;
        case 2: code = sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, 0); break;
        default: code = sqlite3_open_v2(uri, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI, 0);
    }
    if (code != SQLITE_OK) fprintf(stderr, "%s: %d %s\n", path, code, sqlite3_errmsg(db));
    DEMAND(code == SQLITE_OK);
    /* Otherwise another copy of SQLite has opened it. */
    DEMAND(sqlite3_memory_used() > before);
    DEMAND(sqlite3_file_control(db, "main", SQLITE_FCNTL_VFSNAME, &vfs) == SQLITE_OK);
    int is_through = strstr(vfs, "ebbpool") != 0;
    if (is_through != through) fprintf(stderr, "the VFS is %s\n", vfs);
    DEMAND(is_through == through);
    sqlite3_free(vfs);
    sqlite3_busy_timeout(db, 5000);
    return db;
}

static long long judged(sqlite3 *db) {
    DEMAND(number(db, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check = 'ok'") == 1);
    if (!number(db, "SELECT count(*) FROM sqlite_schema WHERE name = 'u'")) return 0;
    long long rows = number(db, "SELECT count(*) FROM t");
    DEMAND(rows == number(db, "SELECT count(*) FROM u"));
    DEMAND(rows == number(db, "SELECT coalesce(max(n), 0) FROM t"));
    DEMAND(rows == number(db, "SELECT coalesce(max(n), 0) FROM u"));
    return rows;
}

static sqlite3 *prepared(const char *path) {
    sqlite3 *db = opened(path, 1);
    if (getenv("WAL")) run(db, "PRAGMA journal_mode = WAL");
    run(db, "CREATE TABLE IF NOT EXISTS t (n INTEGER PRIMARY KEY, x BLOB)");
    run(db, "CREATE TABLE IF NOT EXISTS u (n INTEGER PRIMARY KEY, x TEXT UNIQUE)");
    return db;
}

static void commit(sqlite3 *db, long long n) {
    char sql[300];
    snprintf(sql, sizeof sql,
             "BEGIN; INSERT INTO t VALUES (%lld, randomblob(%lld)); INSERT INTO u VALUES (%lld, hex(randomblob(16))); COMMIT", n,
             n * 37 % 3000, n);
    run(db, sql);
}

/* What plain SQLite reads in a process that has not had the VFS open on the file. */
static void demand_rows(const char *path, long rows) {
    int status;
    pid_t child = fork();
    DEMAND(child >= 0);
    if (!child) {
        sqlite3 *db = opened(path, 0);
        DEMAND(judged(db) == rows);
        _exit(sqlite3_close(db));
    }
    DEMAND(waitpid(child, &status, 0) == child && status == 0);
}

struct task { const char *path; long rows; int forks; };

static void *write_all(void *argument) {
    struct task *task = argument;
    sqlite3 *db = prepared(task->path);
    for (long n = 1; n <= task->rows; n++) {
        commit(db, n);
        if (task->forks && n % (task->rows / 5) == 0) {
            int status;
            pid_t child = fork();
            DEMAND(child >= 0);
            if (!child) {
                char path[4200];
                snprintf(path, sizeof path, "%s-child%ld", task->path, n);
                struct task own = {path, 20, 0};
                write_all(&own);
                demand_rows(path, 20);
                _exit(0);
            }
            DEMAND(waitpid(child, &status, 0) == child && status == 0);
        }
    }
    DEMAND(judged(db) == task->rows);
    DEMAND(sqlite3_close(db) == SQLITE_OK);
    return 0;
}

int judge(const char *mode, const char *path, long rows) {
    struct task task = {path, rows, !strcmp(mode, "fork")};
    if (getenv("EXTENSION")) {
        sqlite3 *memory = 0;
        char *message = 0;
        DEMAND(sqlite3_open(":memory:", &memory) == SQLITE_OK);
        DEMAND(sqlite3_enable_load_extension(memory, 1) == SQLITE_OK);
        if (sqlite3_load_extension(memory, getenv("EXTENSION"), 0, &message) != SQLITE_OK) fprintf(stderr, "%s\n", message);
        DEMAND(!message && sqlite3_close(memory) == SQLITE_OK);
    }
    if (!strcmp(mode, "recover") || !strcmp(mode, "plain")) {
        sqlite3 *db = opened(path, !strcmp(mode, "recover"));
        printf("%lld\n", judged(db));
        return sqlite3_close(db);
    }
    if (!strcmp(mode, "endless") || !strcmp(mode, "leave")) {
        sqlite3 *db = prepared(path);
        for (long long n = judged(db) + 1; *mode == 'e' || n <= rows; n++) {
            commit(db, n);
            char text[32];
            int bytes = snprintf(text, sizeof text, "%lld\n", n);
            DEMAND(*mode != 'e' || write(1, text, bytes) == bytes);
        }
        printf("%lld\n", number(db, "PRAGMA ebbpool_window"));
        return 0;
    }
    if (!strcmp(mode, "thread")) {
        pthread_t thread;
        pthread_attr_t attributes;
        /* A linker may have asked for more in the program. The lowest byte that changes shows how much was used. */
        char *stack = aligned_alloc(4096, STACK);
        memset(stack, 0xa5, STACK);
        pthread_attr_init(&attributes);
        DEMAND(!pthread_attr_setstack(&attributes, stack, STACK));
        DEMAND(!pthread_create(&thread, &attributes, write_all, &task));
        DEMAND(!pthread_join(thread, 0));
        size_t unused = 0;
        while (unused < STACK && (unsigned char)stack[unused] == 0xa5) unused++;
        DEMAND(unused > STACK / 4);
    } else {
        write_all(&task);
    }
    demand_rows(path, rows);
    return 0;
}
#endif

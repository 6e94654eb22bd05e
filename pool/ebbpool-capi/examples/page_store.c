/* A store of pages with a write-ahead log, a crash, and recovery.
 *
 * Each page holds one counter. An addition is acknowledged as soon as the log is durable up to it. Then the program
 * "crashes": the pool is destroyed with its dirty pages, and records that the log had not written are lost. Recovery has
 * to restore every acknowledged addition, and nothing else.
 *
 *     cc -o page_store page_store.c $(pkg-config --cflags --libs ebbpool) -lpthread && ./page_store DIRECTORY
 */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ebbpool.h>

enum { COUNTERS = 64, FRAMES = 8, THREADS = 4, ADDITIONS = 50 };

/* Ends the program if a call has failed. */
static void check(ebbpool_status status, const char *what)
{
    if (status != EBBPOOL_OK) {
        fprintf(stderr, "%s: %s: %s\n", what, ebbpool_status_name(status), ebbpool_error_message());
        exit(1);
    }
}

/* The log: a file of records. The LSN of a record is the offset at which it ends, in bytes. */

typedef struct record {
    uint64_t lsn, page, value, check;
} record;

typedef struct log_file {
    int file;
    int failed;            /* an error number: it is unknown how much of the log is in the file */
    uint64_t end, durable; /* LSNs */
    record *tail;          /* the records from `durable` to `end`, not written yet */
    size_t room;
    pthread_mutex_t lock;
} log_file;

static uint64_t checksum(const record *it)
{
    return (it->lsn * 31 + it->page) * 31 + it->value + UINT64_C(0x9e3779b97f4a7c15);
}

static void log_open(log_file *log, const char *path)
{
    memset(log, 0, sizeof *log);
    log->file = open(path, O_RDWR | O_CREAT | O_APPEND, 0666);
    if (log->file < 0) {
        perror(path);
        exit(1);
    }
    /* Recovery has cut off a record that was not written whole. */
    log->end = log->durable = (uint64_t)lseek(log->file, 0, SEEK_END);
    pthread_mutex_init(&log->lock, NULL);
}

static void log_close(log_file *log)
{
    close(log->file);
    free(log->tail);
    pthread_mutex_destroy(&log->lock);
}

/* Appends a record to the tail; returns its LSN. */
static uint64_t log_append(log_file *log, uint64_t page, uint64_t value)
{
    pthread_mutex_lock(&log->lock);
    size_t count = (size_t)(log->end - log->durable) / sizeof(record);
    if (count == log->room) {
        log->room = 2 * count + 16;
        log->tail = realloc(log->tail, log->room * sizeof(record));
        if (log->tail == NULL)
            abort();
    }
    uint64_t lsn = log->end += sizeof(record);
    log->tail[count] = (record){.lsn = lsn, .page = page, .value = value};
    log->tail[count].check = checksum(&log->tail[count]);
    pthread_mutex_unlock(&log->lock);
    return lsn;
}

/* The callbacks. The pool calls them from any thread. */

static uint64_t log_durable_lsn(void *context)
{
    log_file *log = context;
    pthread_mutex_lock(&log->lock);
    uint64_t durable = log->durable;
    pthread_mutex_unlock(&log->lock);
    return durable;
}

static uint64_t log_end_lsn(void *context)
{
    log_file *log = context;
    pthread_mutex_lock(&log->lock);
    uint64_t end = log->end;
    pthread_mutex_unlock(&log->lock);
    return end;
}

static int32_t log_flush_to(void *context, uint64_t lsn)
{
    log_file *log = context;
    pthread_mutex_lock(&log->lock);
    if (log->durable < lsn && !log->failed) {
        size_t bytes = (size_t)(log->end - log->durable);
        ssize_t written = write(log->file, log->tail, bytes);
        if (written != (ssize_t)bytes)
            log->failed = written < 0 ? errno : ENOSPC;
        else if (fdatasync(log->file) != 0)
            log->failed = errno;
        else
            log->durable = log->end;
    }
    int failed = log->failed;
    pthread_mutex_unlock(&log->lock);
    return failed;
}

/* The store. */

typedef struct store {
    ebbpool_pool *pool;
    log_file log;
    char pages_path[4096], log_path[4096];
} store;

static void store_open(store *it, const char *directory)
{
    snprintf(it->pages_path, sizeof it->pages_path, "%s/counters.pages", directory);
    snprintf(it->log_path, sizeof it->log_path, "%s/counters.log", directory);
    log_open(&it->log, it->log_path);
    ebbpool_log log = {
        .struct_size = sizeof log,
        .context = &it->log,
        .durable_lsn = log_durable_lsn,
        .flush_to = log_flush_to,
        .end_lsn = log_end_lsn,
    };
    ebbpool_file_options file = {.struct_size = sizeof file, .flags = EBBPOOL_FILE_CREATE};
    /* Fewer frames than pages, so that dirty pages are written before anything is committed. */
    ebbpool_pool_options options = {
        .struct_size = sizeof options, .frames = FRAMES, .policy = "cflru:window=0.5", .log = &log};
    check(ebbpool_pool_open_file(it->pages_path, &file, &options, &it->pool), "opening the pool");
}

/* Adds 1 to a counter, and returns when that survives a crash. */
static void add_one(store *it, uint64_t counter)
{
    ebbpool_page page;
    check(ebbpool_pool_fix(it->pool, counter, EBBPOOL_WRITE, 0, &page), "fixing a page");
    uint64_t value;
    memcpy(&value, page.data, sizeof value);
    value++;
    memcpy(page.data, &value, sizeof value);
    /* Append while the page is fixed, and unfix it with the LSN. */
    uint64_t lsn = log_append(&it->log, counter, value);
    check(ebbpool_pool_unfix(it->pool, page.token, lsn), "unfixing a page");
    if (log_flush_to(&it->log, lsn) != 0)
        exit(1);
}

typedef struct adder {
    store *store;
    uint64_t first;
    pthread_t thread;
} adder;

static void *add_in_turn(void *argument)
{
    adder *it = argument;
    for (uint64_t at = 0; at < ADDITIONS; at++)
        add_one(it->store, (it->first + at * 7) % COUNTERS);
    return NULL;
}

static void add_at_once(store *it)
{
    adder adders[THREADS];
    for (int at = 0; at < THREADS; at++) {
        adders[at] = (adder){.store = it, .first = (uint64_t)at};
        if (pthread_create(&adders[at].thread, NULL, add_in_turn, &adders[at]) != 0)
            abort();
    }
    for (int at = 0; at < THREADS; at++)
        pthread_join(adders[at].thread, NULL);
}

/* Redoes the changes that the log has after `from` and the pages lack. Ends at the first record that was not written
 * whole, and cuts it off. */
static int recover(store *it, uint64_t from)
{
    record next;
    int redone = 0;
    uint64_t at = from;
    while (pread(it->log.file, &next, sizeof next, (off_t)at) == (ssize_t)sizeof next &&
           next.lsn == at + sizeof next && next.check == checksum(&next)) {
        ebbpool_page page;
        check(ebbpool_pool_fix(it->pool, next.page, EBBPOOL_WRITE, 0, &page), "fixing a page");
        uint64_t lsn = 0;
        if (page.lsn < next.lsn) {
            memcpy(page.data, &next.value, sizeof next.value);
            lsn = next.lsn;
            redone++;
        }
        check(ebbpool_pool_unfix(it->pool, page.token, lsn), "unfixing a page");
        at = next.lsn;
    }
    if (ftruncate(it->log.file, (off_t)at) != 0)
        exit(1);
    pthread_mutex_lock(&it->log.lock);
    it->log.end = it->log.durable = at;
    pthread_mutex_unlock(&it->log.lock);
    return redone;
}

static uint64_t sum_of(store *it)
{
    uint64_t sum = 0;
    for (uint64_t counter = 0; counter < COUNTERS; counter++) {
        ebbpool_page page;
        check(ebbpool_pool_fix(it->pool, counter, EBBPOOL_READ, 0, &page), "fixing a page");
        uint64_t value;
        memcpy(&value, page.data, sizeof value);
        sum += value;
        check(ebbpool_pool_unfix(it->pool, page.token, 0), "unfixing a page");
    }
    return sum;
}

/* Changes a page without making the log durable, and ends the pool without writing, as a crash does. */
static void crash(store *it)
{
    ebbpool_page page;
    check(ebbpool_pool_fix(it->pool, 0, EBBPOOL_WRITE, 0, &page), "fixing a page");
    uint64_t value = 1000000;
    memcpy(page.data, &value, sizeof value);
    uint64_t lsn = log_append(&it->log, 0, value);
    check(ebbpool_pool_unfix(it->pool, page.token, lsn), "unfixing a page");
    check(ebbpool_pool_destroy(it->pool), "destroying the pool");
    log_close(&it->log);
}

int main(int count, char **arguments)
{
    check(ebbpool_check_abi(EBBPOOL_ABI_VERSION), "loading libebbpool");
    if (count != 2) {
        fprintf(stderr, "usage: %s DIRECTORY\n", arguments[0]);
        return 2;
    }
    store it;
    store_open(&it, arguments[1]);
    add_at_once(&it);
    /* Recovery begins at the LSN of the last checkpoint; a program stores it in a file. */
    uint64_t covered;
    check(ebbpool_pool_checkpoint(it.pool, &covered), "checkpointing");
    add_at_once(&it);
    ebbpool_stats stats = {.struct_size = sizeof stats};
    check(ebbpool_pool_stats(it.pool, &stats), "asking for figures");
    uint64_t acknowledged = 2 * THREADS * ADDITIONS;
    printf("%" PRIu64 " additions acknowledged; %" PRIu64 " pages read, %" PRIu64 " written\n", acknowledged,
           stats.pages_read, stats.pages_written);
    crash(&it);

    store_open(&it, arguments[1]);
    int redone = recover(&it, covered);
    uint64_t sum = sum_of(&it);
    printf("after the crash: %d changes redone, the counters add up to %" PRIu64 "\n", redone, sum);
    check(ebbpool_pool_close(it.pool), "closing the pool");
    check(ebbpool_pool_destroy(it.pool), "destroying the pool");
    log_close(&it.log);
    return sum == acknowledged ? 0 : 1;
}

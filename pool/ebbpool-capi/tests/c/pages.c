/* Fixed pages, storages and logs that fail, and threads. */
#include "check.h"

static void tokens(const char *directory)
{
    (void)directory;
    ebbpool_pool *pool = open_memory(10), *other = open_memory(10);
    ebbpool_page page, second;
    fill(pool, 3);
    OK(ebbpool_pool_fix(pool, 1, EBBPOOL_READ, 0, &page));
    OK(ebbpool_pool_fix(pool, 1, EBBPOOL_READ, 7, &second));
    CHECK(page.data == second.data && page.token != second.token && page.data[0] == 1);
    EXPECT(EBBPOOL_NOT_FIXED, ebbpool_pool_unfix(other, page.token, 0));
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_unfix(pool, page.token, 5));
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_set_lsn(pool, page.token, 5));
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_redone(pool, page.token));
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_downgrade(pool, page.token));
    OK(ebbpool_pool_unfix(pool, page.token, 0));
    EXPECT(EBBPOOL_NOT_FIXED, ebbpool_pool_unfix(pool, page.token, 0));
    OK(ebbpool_pool_unfix(pool, second.token, 0));

    /* The slot is used again, and the old token is still none. */
    OK(ebbpool_pool_fix(pool, 2, EBBPOOL_WRITE, 0, &page));
    EXPECT(EBBPOOL_NOT_FIXED, ebbpool_pool_unfix(pool, second.token, 0));
    OK(ebbpool_pool_set_lsn(pool, page.token, 9));
    OK(ebbpool_pool_redone(pool, page.token));
    OK(ebbpool_pool_downgrade(pool, page.token));
    OK(ebbpool_pool_fix(pool, 2, EBBPOOL_READ, 0, &second));
    CHECK(second.lsn == 9);
    OK(ebbpool_pool_unfix(pool, page.token, 0));
    OK(ebbpool_pool_unfix(pool, second.token, 0));
    EXPECT(EBBPOOL_NOT_FIXED, ebbpool_pool_unfix(pool, 0, 0));
    EXPECT(EBBPOOL_NOT_FIXED, ebbpool_pool_unfix(pool, UINT64_MAX, 0));
    EXPECT(EBBPOOL_NOT_FIXED, ebbpool_pool_set_lsn(pool, 12345, 1));

    OK(ebbpool_pool_fix(pool, 2, EBBPOOL_NEW, 0, &page));
    CHECK(page.data[0] == 0);
    OK(ebbpool_pool_unfix(pool, page.token, 10));
    ebbpool_stats stats = {.struct_size = sizeof stats};
    OK(ebbpool_pool_stats(pool, &stats));
    CHECK(stats.fixed == 0 && stats.pages == 3 && stats.payload_size == 480);
    OK(ebbpool_pool_destroy(other));

    /* A pool that is destroyed unfixes what is fixed. */
    OK(ebbpool_pool_fix(pool, 0, EBBPOOL_WRITE, 0, &page));
    OK(ebbpool_pool_destroy(pool));
}

static void waiting(const char *directory)
{
    (void)directory;
    ebbpool_pool *pool = open_memory(2);
    ebbpool_page first, second, third;
    OK(ebbpool_pool_allocate(pool, 0, &first));
    EXPECT(EBBPOOL_BUSY, ebbpool_pool_fix(pool, first.number, EBBPOOL_READ, 0, &third));
    EXPECT(EBBPOOL_BUSY, ebbpool_pool_free(pool, first.number));
    EXPECT(EBBPOOL_BUSY, ebbpool_pool_discard(pool, first.number));
    OK(ebbpool_pool_allocate(pool, 0, &second));
    EXPECT(EBBPOOL_ALL_FIXED, ebbpool_pool_allocate(pool, 0, &third));
    EXPECT(EBBPOOL_BUSY, ebbpool_pool_close(pool));
    OK(ebbpool_pool_unfix(pool, first.token, 0));
    OK(ebbpool_pool_allocate(pool, 0, &third));
    OK(ebbpool_pool_unfix(pool, second.token, 0));
    OK(ebbpool_pool_unfix(pool, third.token, 0));
    OK(ebbpool_pool_free(pool, first.number));
    OK(ebbpool_pool_allocate(pool, 0, &second));
    CHECK(second.number == first.number);
    OK(ebbpool_pool_unfix(pool, second.token, 0));
    uint64_t covered = 0;
    OK(ebbpool_pool_checkpoint(pool, &covered));
    CHECK(covered == UINT64_MAX);
    OK(ebbpool_pool_flush(pool, 0));

    OK(ebbpool_pool_close(pool));
    ebbpool_stats stats = {.struct_size = sizeof stats};
    EXPECT(EBBPOOL_CLOSED, ebbpool_pool_close(pool));
    EXPECT(EBBPOOL_CLOSED, ebbpool_pool_fix(pool, 0, EBBPOOL_READ, 0, &first));
    EXPECT(EBBPOOL_CLOSED, ebbpool_pool_unfix(pool, third.token, 0));
    EXPECT(EBBPOOL_CLOSED, ebbpool_pool_stats(pool, &stats));
    EXPECT(EBBPOOL_CLOSED, ebbpool_pool_checkpoint(pool, &covered));
    OK(ebbpool_pool_destroy(pool));
}

static void errors_of_a_storage(const char *directory)
{
    (void)directory;
    disk disk = new_disk();
    ebbpool_pool *pool = open_disk(&disk, 4);
    ebbpool_page page;
    fill(pool, 8);

    disk.fail_read = EIO;
    EXPECT(EBBPOOL_IO, ebbpool_pool_fix(pool, 0, EBBPOOL_READ, 0, &page));
    CHECK(ebbpool_error_os_code() == EIO && page.token == 0);
    disk.fail_read = 12345;
    EXPECT(EBBPOOL_IO, ebbpool_pool_fix(pool, 0, EBBPOOL_READ, 0, &page));
    CHECK(ebbpool_error_os_code() == 12345);
    disk.fail_read = 0;
    OK(ebbpool_pool_fix(pool, 0, EBBPOOL_READ, 0, &page));
    CHECK(page.data[0] == 0);
    OK(ebbpool_pool_unfix(pool, page.token, 0));

    disk.fail_set_length = ENOSPC;
    EXPECT(EBBPOOL_IO, ebbpool_pool_allocate(pool, 0, &page));
    CHECK(ebbpool_error_os_code() == ENOSPC);
    EXPECT(EBBPOOL_IO, ebbpool_pool_grow(pool, 100));
    CHECK(ebbpool_error_os_code() == ENOSPC);
    disk.fail_set_length = 0;
    OK(ebbpool_pool_grow(pool, 100));
    EXPECT(EBBPOOL_IO, ebbpool_pool_grow(pool, UINT64_MAX));

    /* Nothing is lost by a failed write. */
    OK(ebbpool_pool_fix(pool, 5, EBBPOOL_WRITE, 0, &page));
    page.data[1] = 55;
    OK(ebbpool_pool_unfix(pool, page.token, 0));
    disk.fail_write = ENOSPC;
    EXPECT(EBBPOOL_IO, ebbpool_pool_checkpoint(pool, NULL));
    CHECK(ebbpool_error_os_code() == ENOSPC);
    EXPECT(EBBPOOL_IO, ebbpool_pool_close(pool));
    EXPECT(EBBPOOL_IO, ebbpool_pool_flush(pool, 5));
    disk.fail_write = 0;
    OK(ebbpool_pool_close(pool));
    CHECK(disk.released == 1);
    OK(ebbpool_pool_destroy(pool));
    CHECK(disk.released == 1);

    disk.length += 100; /* a page that the storage has only the beginning of */
    disk.bytes = realloc(disk.bytes, disk.length);
    memset(disk.bytes + disk.length - 100, 0, 100);
    pool = open_disk(&disk, 4);
    OK(ebbpool_pool_fix(pool, disk.length / 512, EBBPOOL_READ, 0, &page));
    CHECK(page.data[479] == 0);
    OK(ebbpool_pool_unfix(pool, page.token, 0));
    OK(ebbpool_pool_fix(pool, 5, EBBPOOL_READ, 0, &page));
    CHECK(page.data[0] == 5 && page.data[1] == 55);
    OK(ebbpool_pool_unfix(pool, page.token, 0));
    disk.bytes[6 * 512 + 100] ^= 1;
    EXPECT(EBBPOOL_DAMAGED, ebbpool_pool_fix(pool, 6, EBBPOOL_READ, 0, &page));

    /* After a failed sync the pool only reads. */
    OK(ebbpool_pool_fix(pool, 5, EBBPOOL_WRITE, 0, &page));
    OK(ebbpool_pool_unfix(pool, page.token, 0));
    disk.fail_sync = EIO;
    ebbpool_status failed = ebbpool_pool_checkpoint(pool, NULL);
    CHECK(failed == EBBPOOL_IO || failed == EBBPOOL_SYNC_FAILED);
    disk.fail_sync = 0;
    EXPECT(EBBPOOL_SYNC_FAILED, ebbpool_pool_fix(pool, 5, EBBPOOL_WRITE, 0, &page));
    OK(ebbpool_pool_fix(pool, 5, EBBPOOL_READ, 0, &page));
    OK(ebbpool_pool_unfix(pool, page.token, 0));
    ebbpool_stats stats = {.struct_size = sizeof stats};
    OK(ebbpool_pool_stats(pool, &stats));
    CHECK(stats.sync_failed == 1 && stats.failed_reads == 1);
    EXPECT(EBBPOOL_SYNC_FAILED, ebbpool_pool_close(pool));
    OK(ebbpool_pool_destroy(pool));
    CHECK(disk.released == 2);
    free_disk(&disk);
}

/* Without functions that change it, a storage is for reading only. */
static void a_read_only_storage(const char *directory)
{
    (void)directory;
    disk disk = new_disk();
    ebbpool_pool *pool = open_disk(&disk, 4);
    ebbpool_page page;
    fill(pool, 8);
    OK(ebbpool_pool_close(pool));
    OK(ebbpool_pool_destroy(pool));
    ebbpool_storage storage = storage_of(&disk);
    ebbpool_pool_options options = options_of(4);
    storage.write_at = NULL;
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_open_callbacks(&storage, &options, &pool));
    CHECK(strstr(ebbpool_error_message(), "write_at") != NULL);
    storage.sync = NULL;
    storage.set_length = NULL;
    OK(ebbpool_pool_open_callbacks(&storage, &options, &pool));
    EXPECT(EBBPOOL_READ_ONLY, ebbpool_pool_fix(pool, 1, EBBPOOL_WRITE, 0, &page));
    EXPECT(EBBPOOL_READ_ONLY, ebbpool_pool_fix(pool, 1, EBBPOOL_NEW, 0, &page));
    EXPECT(EBBPOOL_READ_ONLY, ebbpool_pool_allocate(pool, 0, &page));
    EXPECT(EBBPOOL_IO, ebbpool_pool_grow(pool, 9));
    for (int number = 0; number < 8; number++) {
        OK(ebbpool_pool_fix(pool, (uint64_t)number, EBBPOOL_READ, 0, &page));
        CHECK(page.data[0] == number);
        OK(ebbpool_pool_unfix(pool, page.token, 0));
    }
    OK(ebbpool_pool_checkpoint(pool, NULL));
    OK(ebbpool_pool_close(pool));
    OK(ebbpool_pool_destroy(pool));
    CHECK(disk.released == 2);
    free_disk(&disk);
}

/* Fixes that do not wait, and a page that is fixed for writing after it was fixed for reading. */
static void without_waiting(const char *directory)
{
    (void)directory;
    ebbpool_pool_options options = options_of(4);
    ebbpool_pool *pool;
    ebbpool_page page, second;
    options.patience_ms = UINT64_MAX;
    OK(ebbpool_pool_open_memory(512, &options, &pool));
    EXPECT(EBBPOOL_BUSY, ebbpool_pool_try_fix(pool, 1, EBBPOOL_READ, &page));
    CHECK(page.token == 0);
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_try_fix(pool, 1, EBBPOOL_NEW, &page));
    OK(ebbpool_pool_fix_within(pool, 1, EBBPOOL_READ, 0, 0, &page));
    OK(ebbpool_pool_try_fix(pool, 1, EBBPOOL_READ, &second));
    EXPECT(EBBPOOL_BUSY, ebbpool_pool_try_fix(pool, 1, EBBPOOL_WRITE, &second));
    OK(ebbpool_pool_try_fix(pool, 1, EBBPOOL_READ, &second));
    ebbpool_stats stats = {.struct_size = sizeof stats};
    OK(ebbpool_pool_stats(pool, &stats));
    CHECK(stats.fixed == 3 && stats.misses == 1);
    OK(ebbpool_pool_destroy(pool));

    pool = open_memory(4);
    fill(pool, 3);
    OK(ebbpool_pool_fix(pool, 1, EBBPOOL_READ, 0, &page));
    OK(ebbpool_pool_fix(pool, 1, EBBPOOL_READ, 0, &second));
    EXPECT(EBBPOOL_BUSY, ebbpool_pool_upgrade(pool, page.token));
    OK(ebbpool_pool_unfix(pool, second.token, 0));
    EXPECT(EBBPOOL_NOT_FIXED, ebbpool_pool_upgrade(pool, second.token));
    OK(ebbpool_pool_upgrade(pool, page.token));
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_upgrade(pool, page.token));
    page.data[1] = 77;
    EXPECT(EBBPOOL_BUSY, ebbpool_pool_fix_within(pool, 1, EBBPOOL_READ, 0, 0, &second));
    OK(ebbpool_pool_unfix(pool, page.token, 5));
    OK(ebbpool_pool_fix(pool, 1, EBBPOOL_READ, 0, &page));
    CHECK(page.data[0] == 1 && page.data[1] == 77 && page.lsn == 5);
    OK(ebbpool_pool_destroy(pool));
}

/* A scan of many pages leaves the pages of others in their frames, and reads that fix nothing find them there. */
static void scans_and_reads(const char *directory)
{
    (void)directory;
    ebbpool_pool *pool = open_memory(16);
    ebbpool_scan *scan;
    ebbpool_page page;
    uint64_t moment = 0, other = 0;
    uint8_t bytes[4] = {0};
    fill(pool, 8);
    OK(ebbpool_scan_new(&scan));
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_fix_scan(pool, scan, 0, 0, NULL));
    for (uint64_t number = 100; number < 200; number++) {
        OK(ebbpool_pool_fix_scan(pool, scan, number, 0, &page));
        CHECK(page.number == number && page.data[0] == 0);
        OK(ebbpool_pool_unfix(pool, page.token, 0));
    }
    OK(ebbpool_scan_destroy(scan));
    for (uint64_t number = 0; number < 8; number++) {
        moment = 0;
        OK(ebbpool_pool_prefetch(pool, number, 0));
        OK(ebbpool_pool_read(pool, number, 0, bytes, 1, &moment));
        CHECK(moment != 0 && bytes[0] == number);
    }
    OK(ebbpool_pool_prefetch(pool, 5000, SIZE_MAX));
    EXPECT(EBBPOOL_BUSY, ebbpool_pool_read(pool, 5000, 0, bytes, 1, &other));
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_read(pool, 7, 478, bytes, 3, &moment));
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_read(pool, 7, SIZE_MAX, bytes, 3, &moment));
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_read(pool, 7, 0, NULL, 3, &moment));
    OK(ebbpool_pool_read(pool, 7, 476, bytes, 4, &moment));
    OK(ebbpool_pool_read(pool, 7, 0, NULL, 0, &moment));
    EXPECT(EBBPOOL_BUSY, ebbpool_pool_read(pool, 6, 0, NULL, 0, &moment));
    OK(ebbpool_pool_fix(pool, 7, EBBPOOL_WRITE, 0, &page));
    EXPECT(EBBPOOL_BUSY, ebbpool_pool_read(pool, 7, 0, bytes, 1, &moment));
    OK(ebbpool_pool_unfix(pool, page.token, 0));
    EXPECT(EBBPOOL_BUSY, ebbpool_pool_read(pool, 7, 0, bytes, 1, &moment));
    moment = UINT64_MAX;
    EXPECT(EBBPOOL_BUSY, ebbpool_pool_read(pool, 7, 0, bytes, 1, &moment));
    OK(ebbpool_pool_destroy(pool));
}

typedef struct trace {
    ebbpool_pool *pool;
    uint64_t numbers[8];
    uint32_t modes[8], classes[8];
    size_t fixes;
} trace;

static void record(void *context, uint64_t number, uint32_t mode, uint32_t page_class)
{
    trace *it = context;
    ebbpool_page page;
    CHECK(it->fixes < 8);
    it->numbers[it->fixes] = number;
    it->modes[it->fixes] = mode;
    it->classes[it->fixes++] = page_class;
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_fix(it->pool, number, EBBPOOL_READ, 0, &page));
    CHECK(strstr(ebbpool_error_message(), "on_fix") != NULL);
}

/* The program receives each fix, and page numbers that are none are refused. */
static void fixes_received(const char *directory)
{
    (void)directory;
    trace trace = {.pool = NULL};
    ebbpool_pool_options options = options_of(4);
    options.on_fix = record;
    options.on_fix_context = &trace;
    options.most_pages = 10;
    OK(ebbpool_pool_open_memory(512, &options, &trace.pool));
    ebbpool_page page;
    OK(ebbpool_pool_fix(trace.pool, 3, EBBPOOL_READ, 7, &page));
    OK(ebbpool_pool_upgrade(trace.pool, page.token));
    OK(ebbpool_pool_unfix(trace.pool, page.token, 0));
    OK(ebbpool_pool_fix(trace.pool, 4, EBBPOOL_NEW, 2, &page));
    OK(ebbpool_pool_unfix(trace.pool, page.token, 0));
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_fix(trace.pool, 10, EBBPOOL_WRITE, 0, &page));
    CHECK(strstr(ebbpool_error_message(), "most_pages") != NULL);
    CHECK(trace.fixes == 4 && trace.numbers[0] == 3 && trace.numbers[2] == 4 && trace.numbers[3] == 10);
    CHECK(trace.modes[0] == EBBPOOL_READ && trace.modes[1] == EBBPOOL_WRITE && trace.modes[2] == EBBPOOL_WRITE);
    CHECK(trace.classes[0] == 7 && trace.classes[1] == 0 && trace.classes[2] == 2);
    OK(ebbpool_pool_close(trace.pool));
    OK(ebbpool_pool_destroy(trace.pool));
}

/* The number of frames changes. */
static void resized(const char *directory)
{
    (void)directory;
    ebbpool_pool_options options = options_of(4);
    ebbpool_pool *pool;
    options.most_frames = 3;
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_open_memory(512, &options, &pool));
    options.most_frames = 20;
    OK(ebbpool_pool_open_memory(512, &options, &pool));
    ebbpool_page page;
    for (uint64_t number = 0; number < 12; number++) {
        OK(ebbpool_pool_fix(pool, number, EBBPOOL_WRITE, 0, &page));
        ((unsigned char *)page.data)[0] = (unsigned char)number;
        OK(ebbpool_pool_unfix(pool, page.token, 0));
        OK(ebbpool_pool_resize(pool, 1 + number * 5 % 20));
    }
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_resize(pool, 0));
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_resize(pool, 21));
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_resize(pool, UINT64_MAX));
    ebbpool_stats stats = {.struct_size = sizeof stats};
    OK(ebbpool_pool_stats(pool, &stats));
    CHECK(stats.frames == 16);
    for (uint64_t number = 0; number < 12; number++) {
        OK(ebbpool_pool_fix(pool, number, EBBPOOL_READ, 0, &page));
        CHECK(((const unsigned char *)page.data)[0] == number);
        OK(ebbpool_pool_unfix(pool, page.token, 0));
    }
    OK(ebbpool_pool_close(pool));
    OK(ebbpool_pool_destroy(pool));
}

static void *close_in_vain(void *argument)
{
    for (int tries = 0; tries < 20000; tries++)
        EXPECT(EBBPOOL_BUSY, ebbpool_pool_close(argument));
    return NULL;
}

/* A close that is refused, since a page is fixed, makes no other call fail. */
static void closes_refused(const char *directory)
{
    (void)directory;
    ebbpool_pool_options options = options_of(4);
    ebbpool_pool *pool;
    OK(ebbpool_pool_open_memory(512, &options, &pool));
    ebbpool_page held, page;
    OK(ebbpool_pool_fix(pool, 0, EBBPOOL_READ, 0, &held));
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, close_in_vain, pool) == 0);
    for (uint64_t fixes = 0; fixes < 100000; fixes++) {
        OK(ebbpool_pool_fix(pool, 1 + fixes % 3, EBBPOOL_READ, 0, &page));
        OK(ebbpool_pool_unfix(pool, page.token, 0));
    }
    CHECK(pthread_join(thread, NULL) == 0);
    OK(ebbpool_pool_unfix(pool, held.token, 0));
    OK(ebbpool_pool_close(pool));
    OK(ebbpool_pool_destroy(pool));
}

static void openings_that_fail(const char *directory)
{
    (void)directory;
    disk disk = new_disk();
    ebbpool_storage storage = storage_of(&disk);
    ebbpool_pool_options options = options_of(4);
    ebbpool_pool *pool;
    disk.fail_length = 99;
    EXPECT(EBBPOOL_IO, ebbpool_pool_open_callbacks(&storage, &options, &pool));
    CHECK(pool == NULL && ebbpool_error_os_code() == 99);
    disk.fail_length = 0;
    storage.page_size = 100;
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_open_callbacks(&storage, &options, &pool));
    storage = storage_of(&disk);
    storage.read_at = NULL;
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_open_callbacks(&storage, &options, &pool));
    CHECK(strstr(ebbpool_error_message(), "read_at") != NULL);
    storage = storage_of(&disk);
    ebbpool_log log = {.struct_size = sizeof log};
    options.log = &log;
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_open_callbacks(&storage, &options, &pool));
    options = options_of(4);
    options.dirty_budget = 2;
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_open_callbacks(&storage, &options, &pool));
    CHECK(disk.released == 0);
    free_disk(&disk);
}

/* A log that counts. */

typedef struct counting_log {
    uint64_t durable, end;
    int fail_flush, lies, flushes, released;
} counting_log;

static uint64_t counting_durable(void *context)
{
    return ((counting_log *)context)->durable;
}

static uint64_t counting_end(void *context)
{
    return ((counting_log *)context)->end;
}

static int32_t counting_flush(void *context, uint64_t lsn)
{
    counting_log *it = context;
    it->flushes++;
    if (!it->fail_flush && !it->lies)
        it->durable = lsn;
    return it->fail_flush;
}

static void counting_release(void *context)
{
    ((counting_log *)context)->released++;
}

static void write_ahead(const char *directory)
{
    (void)directory;
    disk disk = new_disk();
    counting_log counts = {.end = 100};
    ebbpool_log log = {
        .struct_size = sizeof log,
        .context = &counts,
        .durable_lsn = counting_durable,
        .flush_to = counting_flush,
        .end_lsn = counting_end,
        .release = counting_release,
    };
    ebbpool_storage storage = storage_of(&disk);
    ebbpool_pool_options options = options_of(4);
    options.log = &log;
    ebbpool_pool *pool;
    OK(ebbpool_pool_open_callbacks(&storage, &options, &pool));
    ebbpool_page page;
    OK(ebbpool_pool_allocate(pool, 0, &page));
    page.data[0] = 42;
    OK(ebbpool_pool_unfix(pool, page.token, 50));
    counts.fail_flush = 77;
    EXPECT(EBBPOOL_LOG, ebbpool_pool_flush(pool, page.number));
    CHECK(ebbpool_error_os_code() == 77 && counts.flushes >= 1);
    CHECK(disk.bytes[32] == 0);
    counts.fail_flush = 0;
    counts.lies = 1;
    EXPECT(EBBPOOL_LOG, ebbpool_pool_flush(pool, page.number));
    CHECK(disk.bytes[32] == 0);
    counts.lies = 0;
    uint64_t covered = 0;
    OK(ebbpool_pool_checkpoint(pool, &covered));
    CHECK(covered == 100 && counts.durable == 50 && disk.bytes[32] == 42);
    CHECK(counts.released == 0);
    OK(ebbpool_pool_close(pool));
    CHECK(counts.released == 1 && disk.released == 1);
    OK(ebbpool_pool_destroy(pool));
    free_disk(&disk);
}

/* Threads that add to counters, on a pool with threads of its own. */

enum { THREADS = 4, PAGES = 40, ADDITIONS = 1500 };

static void *add(void *argument)
{
    ebbpool_pool *pool = argument;
    for (int at = 0; at < ADDITIONS; at++) {
        uint64_t number = (uint64_t)(at * 7919 % PAGES), sum;
        ebbpool_page page;
        OK(ebbpool_pool_fix(pool, number, EBBPOOL_WRITE, 0, &page));
        memcpy(&sum, page.data, sizeof sum);
        sum++;
        memcpy(page.data, &sum, sizeof sum);
        OK(ebbpool_pool_unfix(pool, page.token, 0));
        if (at % 500 == 0)
            OK(ebbpool_pool_checkpoint(pool, NULL));
        /* Each thread has its own last error. */
        EXPECT(EBBPOOL_NOT_FIXED, ebbpool_pool_unfix(pool, page.token, 0));
        CHECK(strstr(ebbpool_error_message(), "token") != NULL);
    }
    return NULL;
}

static void *unfix_for_another_thread(void *argument)
{
    void **arguments = argument;
    OK(ebbpool_pool_unfix(arguments[0], *(uint64_t *)arguments[1], 0));
    return NULL;
}

static void threads(const char *directory)
{
    (void)directory;
    disk disk = new_disk();
    ebbpool_storage storage = storage_of(&disk);
    ebbpool_pool_options options = options_of(10);
    options.flags = 0;
    options.patience_ms = 60000;
    options.policy = "ebb";
    ebbpool_pool *pool;
    OK(ebbpool_pool_open_callbacks(&storage, &options, &pool));
    pthread_t adders[THREADS];
    for (int at = 0; at < THREADS; at++)
        CHECK(pthread_create(&adders[at], NULL, add, pool) == 0);
    for (int at = 0; at < THREADS; at++)
        pthread_join(adders[at], NULL);
    uint64_t total = 0;
    for (uint64_t number = 0; number < PAGES; number++) {
        ebbpool_page page;
        uint64_t sum;
        OK(ebbpool_pool_fix(pool, number, EBBPOOL_READ, 0, &page));
        memcpy(&sum, page.data, sizeof sum);
        total += sum;
        void *arguments[] = {pool, &page.token};
        if (number == 0) {
            CHECK(pthread_create(&adders[0], NULL, unfix_for_another_thread, arguments) == 0);
            pthread_join(adders[0], NULL);
        } else {
            OK(ebbpool_pool_unfix(pool, page.token, 0));
        }
    }
    CHECK(total == THREADS * ADDITIONS);
    OK(ebbpool_pool_close(pool));
    OK(ebbpool_pool_destroy(pool));
    free_disk(&disk);
}

int main(int count, char **arguments)
{
    group groups[] = {
        {"tokens", tokens},
        {"waiting", waiting},
        {"errors of a storage", errors_of_a_storage},
        {"a read-only storage", a_read_only_storage},
        {"without waiting", without_waiting},
        {"scans and reads", scans_and_reads},
        {"fixes received", fixes_received},
        {"resized", resized},
        {"closes refused", closes_refused},
        {"openings that fail", openings_that_fail},
        {"write ahead", write_ahead},
        {"threads", threads},
    };
    return RUN(groups, count, arguments);
}

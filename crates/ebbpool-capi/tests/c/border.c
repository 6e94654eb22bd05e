/* Calls every function of libebbpool, above all with what they have to refuse. Prints the name of each group, and ends with
 * status 1 at the first surprise. */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ebbpool.h>

#define CHECK(condition)                                                                    \
    do {                                                                                    \
        if (!(condition)) {                                                                 \
            fprintf(stderr, "%s:%d: not true: %s (last error: %s)\n", __FILE__, __LINE__,   \
                    #condition, ebbpool_error_message());                                   \
            exit(1);                                                                        \
        }                                                                                   \
    } while (0)

#define EXPECT(expected, call) expect(__LINE__, #call, expected, call)

static void expect(int line, const char *call, ebbpool_status expected, ebbpool_status status)
{
    if (status != expected) {
        fprintf(stderr, "border.c:%d: %s is %s, not %s: %s\n", line, call, ebbpool_status_name(status),
                ebbpool_status_name(expected), ebbpool_error_message());
        exit(1);
    }
    CHECK(status == EBBPOOL_OK || ebbpool_error_message()[0] != 0);
}

#define OK(call) EXPECT(EBBPOOL_OK, call)

/* A disk in memory that fails on demand. */

typedef struct disk {
    pthread_mutex_t lock;
    uint8_t *bytes;
    uint64_t length;
    int fail_read, fail_write, fail_sync, fail_length, fail_set_length;
    int released;
} disk;

static int32_t disk_read(void *context, void *buffer, size_t length, uint64_t offset)
{
    disk *it = context;
    pthread_mutex_lock(&it->lock);
    CHECK(offset + length <= it->length);
    memcpy(buffer, it->bytes + offset, length);
    int failed = it->fail_read;
    pthread_mutex_unlock(&it->lock);
    return failed;
}

static int32_t disk_write(void *context, const void *buffer, size_t length, uint64_t offset)
{
    disk *it = context;
    pthread_mutex_lock(&it->lock);
    CHECK(offset + length <= it->length);
    if (!it->fail_write)
        memcpy(it->bytes + offset, buffer, length);
    int failed = it->fail_write;
    pthread_mutex_unlock(&it->lock);
    return failed;
}

static int32_t disk_sync(void *context)
{
    return ((disk *)context)->fail_sync;
}

static int32_t disk_length(void *context, uint64_t *bytes)
{
    disk *it = context;
    *bytes = it->length;
    return it->fail_length;
}

static int32_t disk_set_length(void *context, uint64_t bytes)
{
    disk *it = context;
    pthread_mutex_lock(&it->lock);
    int failed = it->fail_set_length;
    if (!failed) {
        CHECK(bytes > it->length);
        it->bytes = realloc(it->bytes, bytes);
        CHECK(it->bytes != NULL);
        memset(it->bytes + it->length, 0, bytes - it->length);
        it->length = bytes;
    }
    pthread_mutex_unlock(&it->lock);
    return failed;
}

static void disk_release(void *context)
{
    ((disk *)context)->released++;
}

static disk new_disk(void)
{
    disk it = {.bytes = NULL};
    pthread_mutex_init(&it.lock, NULL);
    return it;
}

static void free_disk(disk *it)
{
    free(it->bytes);
    pthread_mutex_destroy(&it->lock);
}

static ebbpool_storage storage_of(disk *it)
{
    return (ebbpool_storage){
        .struct_size = sizeof(ebbpool_storage),
        .context = it,
        .page_size = 512,
        .read_at = disk_read,
        .write_at = disk_write,
        .sync = disk_sync,
        .length = disk_length,
        .set_length = disk_set_length,
        .release = disk_release,
    };
}

/* Options of a pool that does nothing in the background, and waits shortly. */
static ebbpool_pool_options options_of(uint64_t frames)
{
    return (ebbpool_pool_options){
        .struct_size = sizeof(ebbpool_pool_options),
        .flags = EBBPOOL_NO_BACKGROUND,
        .frames = frames,
        .policy = "lru",
        .patience_ms = 20,
    };
}

static ebbpool_pool *open_disk(disk *it, uint64_t frames)
{
    ebbpool_storage storage = storage_of(it);
    ebbpool_pool_options options = options_of(frames);
    ebbpool_pool *pool;
    OK(ebbpool_pool_open_callbacks(&storage, &options, &pool));
    return pool;
}

static ebbpool_pool *open_memory(uint64_t frames)
{
    ebbpool_pool_options options = options_of(frames);
    ebbpool_pool *pool;
    OK(ebbpool_pool_open_memory(512, &options, &pool));
    return pool;
}

/* Allocates pages 0 to `count` - 1, each with its number as the first byte. */
static void fill(ebbpool_pool *pool, int count)
{
    for (int number = 0; number < count; number++) {
        ebbpool_page page;
        OK(ebbpool_pool_allocate(pool, 0, &page));
        CHECK(page.number == (uint64_t)number && page.length == 480 && page.token != 0);
        page.data[0] = (uint8_t)number;
        OK(ebbpool_pool_unfix(pool, page.token, 0));
    }
}

static void versions(void)
{
    CHECK(ebbpool_abi_version() >= EBBPOOL_ABI_VERSION);
    OK(ebbpool_check_abi(EBBPOOL_ABI_VERSION));
    EXPECT(EBBPOOL_VERSION, ebbpool_check_abi(EBBPOOL_ABI_VERSION + 1));
    EXPECT(EBBPOOL_VERSION, ebbpool_check_abi(0));
    CHECK(strchr(ebbpool_version(), '.') != NULL);
    CHECK(strcmp(ebbpool_status_name(EBBPOOL_PANIC), "EBBPOOL_PANIC") == 0);
    CHECK(strcmp(ebbpool_status_name(EBBPOOL_OK), "EBBPOOL_OK") == 0);
    CHECK(strcmp(ebbpool_status_name(-1), "EBBPOOL_UNKNOWN") == 0);
    CHECK(strcmp(ebbpool_status_name(15), "EBBPOOL_UNKNOWN") == 0);
}

static void null_pointers(void)
{
    ebbpool_pool_options options = options_of(10);
    ebbpool_page page;
    ebbpool_pool *pool;
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_open_file(NULL, NULL, &options, &pool));
    CHECK(pool == NULL);
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_open_file("x", NULL, NULL, &pool));
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_open_file("x", NULL, &options, NULL));
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_open_callbacks(NULL, &options, &pool));
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_open_memory(512, NULL, &pool));
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_open_memory(512, &options, NULL));
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_fix(NULL, 0, EBBPOOL_READ, 0, &page));
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_allocate(NULL, 0, &page));
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_unfix(NULL, 1, 0));
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_set_lsn(NULL, 1, 0));
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_redone(NULL, 1));
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_downgrade(NULL, 1));
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_free(NULL, 1));
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_discard(NULL, 1));
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_flush(NULL, 1));
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_checkpoint(NULL, NULL));
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_grow(NULL, 1));
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_throttle(NULL));
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_describe(NULL, NULL, 0, NULL));
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_stats(NULL, NULL));
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_close(NULL));
    OK(ebbpool_pool_destroy(NULL));

    pool = open_memory(10);
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_fix(pool, 0, EBBPOOL_READ, 0, NULL));
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_allocate(pool, 0, NULL));
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_stats(pool, NULL));
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_describe(pool, NULL, 10, NULL));
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_fix(pool, 0, 3, 0, &page));
    CHECK(page.token == 0 && page.data == NULL);
    OK(ebbpool_pool_checkpoint(pool, NULL));
    OK(ebbpool_pool_throttle(pool));
    OK(ebbpool_pool_describe(pool, NULL, 0, NULL));
    OK(ebbpool_pool_destroy(pool));
}

/* Opens a pool with these options, and destroys it. */
static ebbpool_status try_options(const ebbpool_pool_options *options)
{
    ebbpool_pool *pool;
    ebbpool_status status = ebbpool_pool_open_memory(512, options, &pool);
    CHECK((status == EBBPOOL_OK) == (pool != NULL));
    ebbpool_status destroyed = ebbpool_pool_destroy(pool);
    return status == EBBPOOL_OK ? destroyed : status;
}

static void sizes_of_structs(void)
{
    ebbpool_pool_options options = options_of(10);
    for (size_t size = 0; size < sizeof options; size++) {
        options.struct_size = size;
        EXPECT(EBBPOOL_INVALID, try_options(&options));
    }
    options.struct_size = 4097;
    EXPECT(EBBPOOL_VERSION, try_options(&options));
    options.struct_size = SIZE_MAX;
    EXPECT(EBBPOOL_VERSION, try_options(&options));

    /* A struct of a later header: its further fields have to be 0. */
    struct {
        ebbpool_pool_options options;
        uint64_t later[2];
    } later = {.options = options_of(10)};
    later.options.struct_size = sizeof later;
    OK(try_options(&later.options));
    later.later[1] = 1;
    EXPECT(EBBPOOL_VERSION, try_options(&later.options));

    struct {
        ebbpool_stats stats;
        uint64_t later[2];
    } stats = {.stats = {.struct_size = sizeof stats}, .later = {7, 8}};
    ebbpool_pool *pool = open_memory(10);
    OK(ebbpool_pool_stats(pool, &stats.stats));
    CHECK(stats.stats.struct_size == sizeof stats && stats.stats.frames == 10);
    CHECK(stats.later[0] == 7 && stats.later[1] == 8);
    stats.stats.struct_size = 8;
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_stats(pool, &stats.stats));
    OK(ebbpool_pool_destroy(pool));

    _Alignas(16) char bytes[sizeof options + 16];
    options = options_of(10);
    memcpy(bytes + 1, &options, sizeof options);
    EXPECT(EBBPOOL_INVALID, try_options((ebbpool_pool_options *)(void *)(bytes + 1)));
}

static void values_of_options(void)
{
    ebbpool_pool_options options = options_of(0);
    EXPECT(EBBPOOL_INVALID, try_options(&options));
    options.memory_bytes = 511;
    EXPECT(EBBPOOL_INVALID, try_options(&options));
    options.memory_bytes = 5120;
    OK(try_options(&options));
    options.frames = 10;
    EXPECT(EBBPOOL_INVALID, try_options(&options));
    options = options_of((uint64_t)1 << 31);
    EXPECT(EBBPOOL_INVALID, try_options(&options));
    options = options_of((uint64_t)1 << 40);
    EXPECT(EBBPOOL_INVALID, try_options(&options));

    options = options_of(10);
    options.flags = 32;
    EXPECT(EBBPOOL_VERSION, try_options(&options));
    options.flags = EBBPOOL_EXACT_HITS | EBBPOOL_NO_READ_AHEAD | EBBPOOL_NO_THROTTLE | EBBPOOL_RAW_PAGES;
    OK(try_options(&options));

    options = options_of(10);
    options.policy = NULL;
    OK(try_options(&options));
    options.policy = "lru-k";
    OK(try_options(&options));
    options.policy = "lrv";
    EXPECT(EBBPOOL_NOT_FOUND, try_options(&options));
    CHECK(strstr(ebbpool_error_message(), "lru") != NULL);
    options.policy = "";
    EXPECT(EBBPOOL_NOT_FOUND, try_options(&options));
    options.policy = "cflru:window=2.5";
    EXPECT(EBBPOOL_INVALID, try_options(&options));
    options.policy = "belady";
    EXPECT(EBBPOOL_INVALID, try_options(&options));
    options.policy = "\xff\xfe";
    EXPECT(EBBPOOL_INVALID, try_options(&options));
    char *endless = malloc(1 << 17);
    memset(endless, 'x', 1 << 17);
    options.policy = endless;
    EXPECT(EBBPOOL_INVALID, try_options(&options));
    free(endless);

    double bad[] = {-1.0, NAN, INFINITY};
    for (int at = 0; at < 3; at++) {
        options = options_of(10);
        options.read_cost = bad[at];
        EXPECT(EBBPOOL_INVALID, try_options(&options));
        options.read_cost = 1.0;
        options.write_cost = bad[at];
        EXPECT(EBBPOOL_INVALID, try_options(&options));
        options = options_of(10);
        options.dirty_budget = bad[at];
        EXPECT(EBBPOOL_INVALID, try_options(&options));
    }
    options = options_of(10);
    options.write_cost = 1.0;
    EXPECT(EBBPOOL_INVALID, try_options(&options));
    options.read_cost = 2.0;
    options.dirty_budget = 0.5;
    options.most_delay_us = UINT64_MAX;
    options.patience_ms = UINT64_MAX;
    options.max_dirty_age_ms = UINT64_MAX;
    options.clean_reserve = 3;
    options.batch = 5;
    OK(try_options(&options));
    options.batch = UINT64_MAX;
    EXPECT(EBBPOOL_INVALID, try_options(&options));

    options = options_of(10);
    ebbpool_pool *pool;
    uint64_t page_sizes[] = {0, 1, 32, 500, (uint64_t)1 << 31, UINT64_MAX};
    for (int at = 0; at < 6; at++)
        EXPECT(EBBPOOL_INVALID, ebbpool_pool_open_memory(page_sizes[at], &options, &pool));
}

static void tokens(void)
{
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

static void waiting(void)
{
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

static void errors_of_a_storage(void)
{
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

static void openings_that_fail(void)
{
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

static void write_ahead(void)
{
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

static void threads(void)
{
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

static void files(const char *directory)
{
    char path[4096], area[4096];
    snprintf(path, sizeof path, "%s/some.pages", directory);
    snprintf(area, sizeof area, "%s/some.area", directory);
    ebbpool_pool_options options = options_of(10);
    ebbpool_pool *pool, *second;
    EXPECT(EBBPOOL_NOT_FOUND, ebbpool_pool_open_file(path, NULL, &options, &pool));
    CHECK(ebbpool_error_os_code() == ENOENT);
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_open_file(directory, NULL, &options, &pool));
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_open_file("\xff", NULL, &options, &pool));
    ebbpool_file_options file = {.struct_size = sizeof file, .page_size = 100};
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_open_file(path, &file, &options, &pool));
    file.page_size = UINT64_MAX;
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_open_file(path, &file, &options, &pool));
    file = (ebbpool_file_options){.struct_size = sizeof file, .flags = 16};
    EXPECT(EBBPOOL_VERSION, ebbpool_pool_open_file(path, &file, &options, &pool));
    file = (ebbpool_file_options){.struct_size = sizeof file, .flags = EBBPOOL_FILE_CREATE, .queue_depth = 5000};
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_open_file(path, &file, &options, &pool));

    /* Threads, because valgrind does not know all of io_uring. */
    file.queue_depth = 4;
    file.page_size = 8192;
    file.flags = EBBPOOL_FILE_CREATE | EBBPOOL_FILE_THREADS | EBBPOOL_FILE_BUFFERED;
    options.double_write_path = area;
    options.identity = 7;
    OK(ebbpool_pool_open_file(path, &file, &options, &pool));
    EXPECT(EBBPOOL_BUSY, ebbpool_pool_open_file(path, &file, &options, &second));
    ebbpool_page page;
    OK(ebbpool_pool_allocate(pool, 0, &page));
    CHECK(page.length == 8192 - 32);
    memset(page.data, 9, page.length);
    OK(ebbpool_pool_unfix(pool, page.token, 0));
    OK(ebbpool_pool_close(pool));
    /* A closed pool no longer has its file. */
    options.double_write_path = NULL;
    file.flags = EBBPOOL_FILE_READ_ONLY | EBBPOOL_FILE_THREADS;
    OK(ebbpool_pool_open_file(path, &file, &options, &second));
    OK(ebbpool_pool_fix(second, 0, EBBPOOL_READ, 0, &page));
    CHECK(page.data[8000] == 9);
    OK(ebbpool_pool_unfix(second, page.token, 0));
    EXPECT(EBBPOOL_IO, ebbpool_pool_grow(second, 10));
    OK(ebbpool_pool_destroy(second));
    OK(ebbpool_pool_destroy(pool));

    options.double_write_path = area;
    options.identity = 8;
    file.flags = EBBPOOL_FILE_THREADS;
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_open_file(path, &file, &options, &pool));
}

static void descriptions(void)
{
    ebbpool_pool *pool = open_memory(10);
    size_t length = 0;
    OK(ebbpool_pool_describe(pool, NULL, 0, &length));
    CHECK(length > 500);
    char *whole = malloc(length + 1);
    OK(ebbpool_pool_describe(pool, whole, length + 1, NULL));
    CHECK(strlen(whole) == length && strstr(whole, "hit ratio") != NULL);
    CHECK(strncmp(whole, "memory\n", 7) == 0);
    for (size_t capacity = 1; capacity <= length; capacity += 17) {
        memset(whole, 'x', length + 1);
        OK(ebbpool_pool_describe(pool, whole, capacity, NULL));
        CHECK(strlen(whole) < capacity && strlen(whole) + 4 >= capacity);
    }
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_describe(pool, whole, SIZE_MAX, NULL));
    free(whole);
    OK(ebbpool_pool_destroy(pool));
}

/* Policies. */

static int32_t only_odd(void *context, uint32_t frame)
{
    (void)context;
    return frame % 2 == 1;
}

static int32_t none(void *context, uint32_t frame)
{
    (void)context;
    (void)frame;
    return 0;
}

static int32_t calls_the_policy(void *context, uint32_t frame)
{
    EXPECT(EBBPOOL_BUSY, ebbpool_policy_hit(context, frame, EBBPOOL_READ));
    EXPECT(EBBPOOL_BUSY, ebbpool_policy_destroy(context));
    return 1;
}

static void policies_that_are_refused(void)
{
    ebbpool_policy *policy;
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_new(NULL, 10, &policy));
    CHECK(policy == NULL);
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_new("lru", 10, NULL));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_new("lru", 0, &policy));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_new("lru", UINT32_MAX, &policy));
    EXPECT(EBBPOOL_NOT_FOUND, ebbpool_policy_new("lrv", 10, &policy));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_new("belady", 10, &policy));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_new("cflru-e", 10, &policy));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_new("cflru:window=7.5", 10, &policy));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_new("\xff", 10, &policy));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_hit(NULL, 0, EBBPOOL_READ));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_hits_left_out(NULL, 1));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_miss(NULL, 0, 0, EBBPOOL_READ, NULL));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_victim(NULL, NULL, NULL, 1, NULL));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_evicted(NULL, 0));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_dropped(NULL, 0));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_cleaned(NULL, 0));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_admit(NULL, 0));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_refuse(NULL));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_costs(NULL, 1, 1));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_describe(NULL, NULL, 0, NULL, NULL));
    OK(ebbpool_policy_destroy(NULL));
}

static void policies(void)
{
    ebbpool_policy *policy;
    ebbpool_eviction plan;
    int32_t evict;
    OK(ebbpool_policy_new("lru", 4, &policy));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_hit(policy, 0, EBBPOOL_READ));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_hit(policy, 4, EBBPOOL_READ));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_admit(policy, 0));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_refuse(policy));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_victim(policy, NULL, NULL, 1, &plan));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_miss(policy, 7, 0, EBBPOOL_NEW, &evict));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_miss(policy, 7, 0, EBBPOOL_READ, NULL));
    for (uint32_t frame = 0; frame < 4; frame++) {
        OK(ebbpool_policy_miss(policy, 100 + frame, 0, EBBPOOL_WRITE, &evict));
        CHECK(evict == 0);
        EXPECT(EBBPOOL_INVALID, ebbpool_policy_miss(policy, 1, 0, EBBPOOL_READ, &evict));
        EXPECT(EBBPOOL_INVALID, ebbpool_policy_refuse(policy));
        EXPECT(EBBPOOL_INVALID, ebbpool_policy_admit(policy, 4));
        OK(ebbpool_policy_admit(policy, frame));
    }
    OK(ebbpool_policy_hit(policy, 0, EBBPOOL_READ));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_hit(policy, 0, 2));
    OK(ebbpool_policy_cleaned(policy, 1));
    OK(ebbpool_policy_cleaned(policy, 1));
    OK(ebbpool_policy_hits_left_out(policy, 3));

    OK(ebbpool_policy_miss(policy, 200, 3, EBBPOOL_READ, &evict));
    CHECK(evict == 1);
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_hit(policy, 0, EBBPOOL_READ));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_admit(policy, 1));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_victim(policy, NULL, NULL, 1, NULL));
    EXPECT(EBBPOOL_ALL_FIXED, ebbpool_policy_victim(policy, none, NULL, 1, &plan));
    CHECK(plan.frame == UINT32_MAX && plan.together_count == 0);
    OK(ebbpool_policy_victim(policy, calls_the_policy, policy, 1, &plan));
    CHECK(plan.frame == 1);
    OK(ebbpool_policy_victim(policy, only_odd, NULL, 1, &plan));
    CHECK(plan.frame == 1 && plan.together_count == 0 && plan.also_evicted_count == 0 && plan.block_pages == 0);
    OK(ebbpool_policy_evicted(policy, plan.frame));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_evicted(policy, plan.frame));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_cleaned(policy, plan.frame));
    OK(ebbpool_policy_admit(policy, plan.frame));
    OK(ebbpool_policy_victim(policy, NULL, NULL, 1, &plan));
    CHECK(plan.frame == 2);
    OK(ebbpool_policy_miss(policy, 201, 0, EBBPOOL_READ, &evict));
    OK(ebbpool_policy_refuse(policy));
    OK(ebbpool_policy_dropped(policy, 3));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_dropped(policy, 3));

    EXPECT(EBBPOOL_INVALID, ebbpool_policy_costs(policy, 0, 1));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_costs(policy, 1, -1));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_costs(policy, NAN, 1));
    OK(ebbpool_policy_costs(policy, 1, 8));
    char name[64];
    size_t length;
    uint32_t properties = 99;
    OK(ebbpool_policy_describe(policy, name, sizeof name, &length, &properties));
    CHECK(strcmp(name, "lru") == 0 && length == 3 && properties == 0);
    OK(ebbpool_policy_destroy(policy));
    OK(ebbpool_policy_new("ebb", 1000, &policy));
    OK(ebbpool_policy_describe(policy, NULL, 0, NULL, &properties));
    CHECK((properties & EBBPOOL_POLICY_COSTS) && (properties & EBBPOOL_POLICY_CLASSES));
    OK(ebbpool_policy_destroy(policy));
}

int main(int count, char **arguments)
{
    if (count != 2) {
        fprintf(stderr, "usage: %s DIRECTORY\n", arguments[0]);
        return 2;
    }
    CHECK(ebbpool_error_message()[0] == 0 && ebbpool_error_os_code() == 0);
    struct {
        const char *name;
        void (*run)(void);
    } groups[] = {
        {"versions", versions},
        {"null pointers", null_pointers},
        {"sizes of structs", sizes_of_structs},
        {"values of options", values_of_options},
        {"tokens", tokens},
        {"waiting", waiting},
        {"errors of a storage", errors_of_a_storage},
        {"openings that fail", openings_that_fail},
        {"write-ahead", write_ahead},
        {"threads", threads},
        {"descriptions", descriptions},
        {"policies that are refused", policies_that_are_refused},
        {"policies", policies},
    };
    for (size_t at = 0; at < sizeof groups / sizeof *groups; at++) {
        puts(groups[at].name);
        groups[at].run();
    }
    puts("files");
    files(arguments[1]);
    puts("all as expected");
    return 0;
}

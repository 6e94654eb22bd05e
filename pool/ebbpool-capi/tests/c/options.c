/* Opening pools: what functions refuse before they open one. */
#include "check.h"

static void versions(const char *directory)
{
    (void)directory;
    CHECK(ebbpool_abi_version() >= EBBPOOL_ABI_VERSION);
    OK(ebbpool_check_abi(EBBPOOL_ABI_VERSION));
    EXPECT(EBBPOOL_VERSION, ebbpool_check_abi(EBBPOOL_ABI_VERSION + 1));
    EXPECT(EBBPOOL_VERSION, ebbpool_check_abi(0));
    CHECK(strchr(ebbpool_version(), '.') != NULL);
    CHECK(strcmp(ebbpool_status_name(EBBPOOL_PANIC), "EBBPOOL_PANIC") == 0);
    CHECK(strcmp(ebbpool_status_name(EBBPOOL_OK), "EBBPOOL_OK") == 0);
    CHECK(strcmp(ebbpool_status_name(-1), "EBBPOOL_UNKNOWN") == 0);
    CHECK(strcmp(ebbpool_status_name(16), "EBBPOOL_UNKNOWN") == 0);
}

static void null_pointers(const char *directory)
{
    (void)directory;
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
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_fix_within(NULL, 0, EBBPOOL_READ, 0, 0, &page));
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_try_fix(NULL, 0, EBBPOOL_READ, &page));
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_upgrade(NULL, 1));
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_prefetch(NULL, 1, 0));
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_read(NULL, 1, 0, NULL, 0, NULL));
    EXPECT(EBBPOOL_INVALID, ebbpool_scan_new(NULL));
    OK(ebbpool_scan_destroy(NULL));
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
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_fix_within(pool, 0, EBBPOOL_READ, 0, 0, NULL));
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_try_fix(pool, 0, EBBPOOL_READ, NULL));
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_fix_scan(pool, NULL, 0, 0, &page));
    EXPECT(EBBPOOL_INVALID, ebbpool_pool_read(pool, 0, 0, NULL, 0, NULL));
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

static void sizes_of_structs(const char *directory)
{
    (void)directory;
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

static void values_of_options(const char *directory)
{
    (void)directory;
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
    options.dense_pages = 100;
    OK(try_options(&options));
    options.dense_pages = UINT64_MAX;
    EXPECT(EBBPOOL_INVALID, try_options(&options));
    options.dense_pages = 0;
    options.batch = UINT64_MAX;
    EXPECT(EBBPOOL_INVALID, try_options(&options));

    options = options_of(10);
    ebbpool_pool *pool;
    uint64_t page_sizes[] = {0, 1, 32, 500, (uint64_t)1 << 31, UINT64_MAX};
    for (int at = 0; at < 6; at++)
        EXPECT(EBBPOOL_INVALID, ebbpool_pool_open_memory(page_sizes[at], &options, &pool));
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

static void descriptions(const char *directory)
{
    (void)directory;
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

int main(int count, char **arguments)
{
    group groups[] = {
        {"versions", versions},
        {"null pointers", null_pointers},
        {"sizes of structs", sizes_of_structs},
        {"values of options", values_of_options},
        {"files", files},
        {"descriptions", descriptions},
    };
    return RUN(groups, count, arguments);
}

/* What the programs that test libebbpool share: checks, and a disk in memory. A program prints the name of each group of
 * checks, and ends with status 1 at the first surprise. */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ebbpool.h>

#define CHECK(condition)                                                                    \
    do {                                                                                    \
        if (!(condition)) {                                                                 \
            fprintf(stderr, "%s:%d: not true: %s (last error: %s)\n", __FILE__, __LINE__,   \
                    #condition, ebbpool_error_message());                                   \
            exit(1);                                                                        \
        }                                                                                   \
    } while (0)

#define EXPECT(expected, call) expect(__FILE__, __LINE__, #call, expected, call)

static inline void expect(const char *file, int line, const char *call, ebbpool_status expected,
                          ebbpool_status status)
{
    if (status != expected) {
        fprintf(stderr, "%s:%d: %s is %s, not %s: %s\n", file, line, call, ebbpool_status_name(status),
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

static inline int32_t disk_read(void *context, void *buffer, size_t length, uint64_t offset)
{
    disk *it = context;
    pthread_mutex_lock(&it->lock);
    CHECK(offset + length <= it->length);
    memcpy(buffer, it->bytes + offset, length);
    int failed = it->fail_read;
    pthread_mutex_unlock(&it->lock);
    return failed;
}

static inline int32_t disk_write(void *context, const void *buffer, size_t length, uint64_t offset)
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

static inline int32_t disk_sync(void *context)
{
    return ((disk *)context)->fail_sync;
}

static inline int32_t disk_length(void *context, uint64_t *bytes)
{
    disk *it = context;
    *bytes = it->length;
    return it->fail_length;
}

static inline int32_t disk_set_length(void *context, uint64_t bytes)
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

static inline void disk_release(void *context)
{
    ((disk *)context)->released++;
}

static inline disk new_disk(void)
{
    disk it = {.bytes = NULL};
    pthread_mutex_init(&it.lock, NULL);
    return it;
}

static inline void free_disk(disk *it)
{
    free(it->bytes);
    pthread_mutex_destroy(&it->lock);
}

static inline ebbpool_storage storage_of(disk *it)
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
static inline ebbpool_pool_options options_of(uint64_t frames)
{
    return (ebbpool_pool_options){
        .struct_size = sizeof(ebbpool_pool_options),
        .flags = EBBPOOL_NO_BACKGROUND,
        .frames = frames,
        .policy = "lru",
        .patience_ms = 20,
    };
}

static inline ebbpool_pool *open_disk(disk *it, uint64_t frames)
{
    ebbpool_storage storage = storage_of(it);
    ebbpool_pool_options options = options_of(frames);
    ebbpool_pool *pool;
    OK(ebbpool_pool_open_callbacks(&storage, &options, &pool));
    return pool;
}

static inline ebbpool_pool *open_memory(uint64_t frames)
{
    ebbpool_pool_options options = options_of(frames);
    ebbpool_pool *pool;
    OK(ebbpool_pool_open_memory(512, &options, &pool));
    return pool;
}

/* Allocates pages 0 to `count` - 1, each with its number as the first byte. */
static inline void fill(ebbpool_pool *pool, int count)
{
    for (int number = 0; number < count; number++) {
        ebbpool_page page;
        OK(ebbpool_pool_allocate(pool, 0, &page));
        CHECK(page.number == (uint64_t)number && page.length == 480 && page.token != 0);
        page.data[0] = (uint8_t)number;
        OK(ebbpool_pool_unfix(pool, page.token, 0));
    }
}

/* A group of checks. The programs run theirs one after the other. */
typedef struct group {
    const char *name;
    void (*run)(const char *directory);
} group;

/* Runs the groups; `arguments` has a directory for files. */
static inline int run_groups(const group *groups, size_t count, int argument_count, char **arguments)
{
    if (argument_count != 2) {
        fprintf(stderr, "usage: %s DIRECTORY\n", arguments[0]);
        return 2;
    }
    CHECK(ebbpool_error_message()[0] == 0 && ebbpool_error_os_code() == 0);
    for (size_t at = 0; at < count; at++) {
        puts(groups[at].name);
        groups[at].run(arguments[1]);
    }
    puts("all as expected");
    return 0;
}

#define RUN(groups, count, arguments) run_groups(groups, sizeof groups / sizeof *groups, count, arguments)

/* A pool over a file descriptor of the program: ebbpool_pool_open_callbacks. */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ebbpool.h>

static int32_t read_at(void *context, void *buffer, size_t length, uint64_t offset)
{
    ssize_t count = pread(*(int *)context, buffer, length, (off_t)offset);
    return count == (ssize_t)length ? 0 : count < 0 ? errno : EIO;
}

static int32_t write_at(void *context, const void *buffer, size_t length, uint64_t offset)
{
    ssize_t count = pwrite(*(int *)context, buffer, length, (off_t)offset);
    return count == (ssize_t)length ? 0 : count < 0 ? errno : ENOSPC;
}

static int32_t sync_all(void *context)
{
    return fdatasync(*(int *)context) == 0 ? 0 : errno;
}

static int32_t get_length(void *context, uint64_t *bytes)
{
    struct stat found;
    if (fstat(*(int *)context, &found) != 0)
        return errno;
    *bytes = (uint64_t)found.st_size;
    return 0;
}

static int32_t set_length(void *context, uint64_t bytes)
{
    return ftruncate(*(int *)context, (off_t)bytes) == 0 ? 0 : errno;
}

ebbpool_status open_descriptor(int *descriptor, ebbpool_pool **pool);

/* `*descriptor` has to be there until the pool is closed. */
ebbpool_status open_descriptor(int *descriptor, ebbpool_pool **pool)
{
    ebbpool_storage storage = {
        .struct_size = sizeof storage,
        .context = descriptor,
        .page_size = 8192,
        .read_at = read_at,
        .write_at = write_at,
        .sync = sync_all,
        .length = get_length,
        .set_length = set_length,
    };
    ebbpool_pool_options options = {
        .struct_size = sizeof options, .memory_bytes = 64 << 20, .policy = "cflru:window=0.3"};
    return ebbpool_pool_open_callbacks(&storage, &options, pool);
}

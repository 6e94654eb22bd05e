/*
 * A slow device for `run --device`: with LD_PRELOAD, each read and write of pages of a database takes longer by SLOW_READ_US and
 * SLOW_WRITE_US microseconds for each page. Pages of other files, such as the log, take as long as before.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define PAGE 8192

/* Whether a file has pages of a database; the server's own directory may have "base" in its name, too. */
static int
is_of_database(const char *path)
{
	unsigned	database;
	unsigned	file;

	for (const char *at = path; (at = strstr(at, "/base/")) != NULL; at++)
		if (sscanf(at, "/base/%u/%u", &database, &file) == 2)
			return 1;
	return 0;
}

static void
wait_for(int fd, size_t size, const char *microseconds)
{
	char		link[32];
	char		path[512];
	ssize_t		length;
	const char *text = getenv(microseconds);
	long		longer = text ? atol(text) * (long) (size / PAGE) : 0;

	if (size % PAGE != 0 || longer <= 0)
		return;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, path, sizeof(path) - 1);
	if (length <= 0)
		return;
	path[length] = 0;
	if (is_of_database(path))
	{
		struct timespec left = {longer / 1000000, longer % 1000000 * 1000};

		/* A signal does not make the device faster. */
		while (nanosleep(&left, &left) != 0 && errno == EINTR)
			;
	}
}

static size_t
size_of(const struct iovec *parts, int number)
{
	size_t		size = 0;

	for (int i = 0; i < number; i++)
		size += parts[i].iov_len;
	return size;
}

/* Two names are in use for each, with and without large files; those with parts from 17 on. */
#define SLOWER(name, buffer, count, size, microseconds) \
	ssize_t \
	name(int fd, buffer bytes, count number, off_t at) \
	{ \
		static ssize_t (*next) (int, buffer, count, off_t); \
\
		if (!next) \
			*(void **) &next = dlsym(RTLD_NEXT, #name); \
		wait_for(fd, size, microseconds); \
		return next(fd, bytes, number, at); \
	}

SLOWER(pread, void *, size_t, number, "SLOW_READ_US")
SLOWER(pread64, void *, size_t, number, "SLOW_READ_US")
SLOWER(pwrite, const void *, size_t, number, "SLOW_WRITE_US")
SLOWER(pwrite64, const void *, size_t, number, "SLOW_WRITE_US")
SLOWER(preadv, const struct iovec *, int, size_of(bytes, number), "SLOW_READ_US")
SLOWER(preadv64, const struct iovec *, int, size_of(bytes, number), "SLOW_READ_US")
SLOWER(pwritev, const struct iovec *, int, size_of(bytes, number), "SLOW_WRITE_US")
SLOWER(pwritev64, const struct iovec *, int, size_of(bytes, number), "SLOW_WRITE_US")

/*
 * A slow device for `run --device`: with LD_PRELOAD, each read and write of one page of a database takes longer by
 * SLOW_READ_US and SLOW_WRITE_US microseconds. Pages of other files, such as the log, take as long as before.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define PAGE 8192

static void
wait_for(int fd, size_t size, const char *microseconds)
{
	char		link[32];
	char		path[512];
	ssize_t		length;
	const char *text = getenv(microseconds);
	long		longer = text ? atol(text) : 0;

	if (size != PAGE || longer <= 0)
		return;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, path, sizeof(path) - 1);
	if (length <= 0)
		return;
	path[length] = 0;
	if (strstr(path, "/base/"))
		nanosleep(&(struct timespec) {longer / 1000000, longer % 1000000 * 1000}, NULL);
}

/* Both names are in use: with and without large files. */
#define SLOWER(name, buffer, microseconds) \
	ssize_t \
	name(int fd, buffer bytes, size_t size, off_t at) \
	{ \
		static ssize_t (*next) (int, buffer, size_t, off_t); \
\
		if (!next) \
			*(void **) &next = dlsym(RTLD_NEXT, #name); \
		wait_for(fd, size, microseconds); \
		return next(fd, bytes, size, at); \
	}

SLOWER(pread, void *, "SLOW_READ_US")
SLOWER(pread64, void *, "SLOW_READ_US")
SLOWER(pwrite, const void *, "SLOW_WRITE_US")
SLOWER(pwrite64, const void *, "SLOW_WRITE_US")

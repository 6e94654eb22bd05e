/*
 * What overhead.py lets programs do that are no servers: `work LOAD FILE SECONDS`. It prints the number of its process, waits for
 * a line, works for so long, prints the nanoseconds of processor time of a unit of work, and ends when its standard input does.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096
#define ROWS 10000
/* Units between two looks at the clock. */
#define TOGETHER 300
/* Units of `calls` for each page of the file. */
#define SELDOM 30000

/* Debian has the header in a package of its own. */
typedef struct sqlite3 sqlite3;
typedef struct sqlite3_stmt sqlite3_stmt;
int			sqlite3_open(const char *, sqlite3 **);
int			sqlite3_exec(sqlite3 *, const char *, void *, void *, char **);
int			sqlite3_prepare_v2(sqlite3 *, const char *, int, sqlite3_stmt **, const char **);
int			sqlite3_bind_int(sqlite3_stmt *, int, int);
int			sqlite3_step(sqlite3_stmt *);
int			sqlite3_reset(sqlite3_stmt *);
#define SQLITE_ROW 100

static int	file;
static long pages;
static int	ends[2];
static sqlite3_stmt *lookup;
static char page[PAGE] __attribute__((aligned(PAGE)));

static void
require(int holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "work: cannot %s: %s\n", what, strerror(errno));
	exit(1);
}

static off_t
position(long unit)
{
	return unit * 7919 % pages * PAGE;
}

static void
look_up(long unit)
{
	sqlite3_bind_int(lookup, 1, (int) (unit * 7919 % ROWS));
	require(sqlite3_step(lookup) == SQLITE_ROW, "find a row");
	sqlite3_reset(lookup);
}

static void
read_page(long unit)
{
	require(pread(file, page, PAGE, position(unit)) == PAGE, "read a page");
}

static void
read_or_write_page(long unit)
{
	if (unit % 2 == 0)
		read_page(unit);
	else
		require(pwrite(file, page, PAGE, position(unit)) == PAGE, "write a page");
}

static void
call(long unit)
{
	if (unit % 3 == 0)
		syscall(SYS_getppid);
	else if (unit % 3 == 1)
		require(write(ends[1], page, 1) == 1, "write to a pipe");
	else
		require(read(ends[0], page, 1) == 1, "read from a pipe");
	/* A capture without a request would fail. */
	if (unit % SELDOM == 0)
		read_page(unit);
}

static void
open_database(const char *path)
{
	sqlite3    *database;

	/* The cache holds all pages, and the transaction the lock, so that a lookup asks for no file. */
	require(sqlite3_open(path, &database) == 0 &&
			sqlite3_exec(database,
						 "pragma journal_mode=memory; pragma synchronous=off; pragma cache_size=-32768;"
						 "create table if not exists t(a integer primary key, b);"
						 "with recursive c(x) as (select 0 union all select x + 1 from c where x < 9999)"
						 " insert or ignore into t select x, zeroblob(100) from c; begin; select sum(length(b)) from t",
						 NULL, NULL, NULL) == 0 &&
			sqlite3_prepare_v2(database, "select b from t where a = ?", -1, &lookup, NULL) == 0,
			"open the database");
}

static long long
nanoseconds(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

int
main(int count, char **words)
{
	static const struct
	{
		const char *name;
		void		(*unit) (long);
		int			flags;
	}			loads[] = {
		{"lookups", look_up, -1},
		{"files", read_or_write_page, O_RDWR},
		{"calls", call, O_RDONLY},
		{"device", read_page, O_RDONLY | O_DIRECT},
	};
	size_t		at = 0;
	long		unit = 0;
	long long	end;
	long long	used;

	while (count == 4 && at < sizeof(loads) / sizeof(*loads) && strcmp(words[1], loads[at].name) != 0)
		at++;
	if (count != 4 || at == sizeof(loads) / sizeof(*loads))
	{
		fprintf(stderr, "usage: work lookups|files|calls|device FILE SECONDS\n");
		return 2;
	}
	if (loads[at].flags < 0)
		open_database(words[2]);
	else
	{
		file = open(words[2], loads[at].flags);
		require(file >= 0 && pipe(ends) == 0, "open the file");
		pages = lseek(file, 0, SEEK_END) / PAGE;
		require(pages > 0, "find pages in the file");
	}
	printf("%d\n", getpid());
	fflush(stdout);
	if (getchar() == EOF)
		return 0;

	end = nanoseconds(CLOCK_MONOTONIC) + (long long) (atof(words[3]) * 1e9);
	used = nanoseconds(CLOCK_PROCESS_CPUTIME_ID);
	while (nanoseconds(CLOCK_MONOTONIC) < end)
		for (int i = 0; i < TOGETHER; i++)
			loads[at].unit(unit++);
	used = nanoseconds(CLOCK_PROCESS_CPUTIME_ID) - used;
	printf("%.2f\n", (double) used / (double) unit);
	fflush(stdout);
	while (getchar() != EOF)
		;
	return 0;
}

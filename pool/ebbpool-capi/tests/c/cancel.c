/* Threads that are cancelled (pthread_cancel) while they are in calls of the library: each call ends first. */
#include "check.h"

#include <time.h>

enum { PAGES = 400, FRAMES = 16, ROUNDS = 12 };

static ebbpool_pool *pool;

static void *write_pages(void *unused)
{
    (void)unused;
    for (uint64_t page = 0;; page = (page + 37) % PAGES) {
        ebbpool_page fixed;
        /* The only place where the thread ends: no page is fixed here. */
        pthread_testcancel();
        if (ebbpool_pool_fix(pool, page, EBBPOOL_WRITE, 0, &fixed) == EBBPOOL_OK)
            ebbpool_pool_unfix(pool, fixed.token, 0);
        ebbpool_pool_flush(pool, page);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    char path[4096];
    CHECK(argc == 2);
    snprintf(path, sizeof path, "%s/pages", argv[1]);
    ebbpool_file_options file = {.struct_size = sizeof file, .flags = EBBPOOL_FILE_CREATE | EBBPOOL_FILE_THREADS};
    ebbpool_pool_options options = {.struct_size = sizeof options, .frames = FRAMES};
    OK(ebbpool_pool_open_file(path, &file, &options, &pool));
    OK(ebbpool_pool_grow(pool, PAGES));
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t thread;
        void *end = NULL;
        CHECK(pthread_create(&thread, NULL, write_pages, NULL) == 0);
        nanosleep(&(struct timespec){.tv_nsec = 10000000 + 1000000 * round}, NULL);
        CHECK(pthread_cancel(thread) == 0);
        CHECK(pthread_join(thread, &end) == 0);
        CHECK(end == PTHREAD_CANCELED);
    }
    for (uint64_t page = 0; page < PAGES; page++) {
        ebbpool_page fixed;
        OK(ebbpool_pool_fix(pool, page, EBBPOOL_WRITE, 0, &fixed));
        OK(ebbpool_pool_unfix(pool, fixed.token, 0));
    }
    OK(ebbpool_pool_close(pool));
    OK(ebbpool_pool_destroy(pool));
    puts("all as expected");
    return 0;
}

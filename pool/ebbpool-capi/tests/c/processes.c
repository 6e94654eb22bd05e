/* Policies in memory that processes share: they allocate nothing, and decide as in one process. */
#define _GNU_SOURCE /* for MAP_ANONYMOUS */
#include "check.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGES = 900, FRAMES = 120, REFERENCES = 30000, CHILDREN = 4, NOT_RESIDENT = -1 };

/* Allocations of this process: with glibc these functions take the place of its own, also for the library. */
static long allocations;

#ifdef __GLIBC__
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

void *malloc(size_t size)
{
    allocations++;
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    allocations++;
    return __libc_calloc(count, size);
}

void *realloc(void *block, size_t size)
{
    allocations++;
    return __libc_realloc(block, size);
}

int posix_memalign(void **block, size_t alignment, size_t size)
{
    allocations++;
    *block = __libc_memalign(alignment, size);
    return *block == NULL ? ENOMEM : 0;
}
#endif

/* A buffer manager in shared memory. */
typedef struct buffer {
    pthread_mutex_t lock;
    ebbpool_policy *policy;
    uint64_t page[FRAMES];
    char used[FRAMES], dirty[FRAMES], queued[FRAMES];
    int frame_of[PAGES];
    int next; /* the number of the next reference */
    int refused; /* calls that the policy refused, as it should */
    long reads, writes;
} buffer;

static int32_t may_evict(void *context, uint32_t frame)
{
    return !((buffer *)context)->queued[frame];
}

static int32_t none(void *context, uint32_t frame)
{
    (void)context;
    (void)frame;
    return 0;
}

static void evict(buffer *it, uint32_t frame)
{
    it->writes += it->dirty[frame];
    it->dirty[frame] = 0;
    it->frame_of[it->page[frame]] = NOT_RESIDENT;
    it->used[frame] = 0;
    OK(ebbpool_policy_evicted(it->policy, frame));
}

/* Evicts two at once. */
static void make_room(buffer *it)
{
    uint32_t frames[2];
    size_t named;
    memset(it->queued, 0, sizeof it->queued);
    it->queued[it->next % FRAMES] = 1;
    OK(ebbpool_policy_victims(it->policy, may_evict, it, 2, frames, &named));
    CHECK(named == 2 && frames[0] != frames[1]);
    for (size_t at = 0; at < named; at++)
        evict(it, frames[at]);
}

/* A call for the name, and calls that are refused. None of them may allocate. */
static void wrong_calls(buffer *it)
{
    ebbpool_eviction plan;
    uint32_t frame;
    size_t named, length;
    char name[64];
    OK(ebbpool_policy_describe(it->policy, name, sizeof name, &length, NULL));
    EXPECT(EBBPOOL_ALL_FIXED, ebbpool_policy_victim(it->policy, none, NULL, 1, &plan));
    EXPECT(EBBPOOL_ALL_FIXED, ebbpool_policy_victims(it->policy, none, NULL, 1, &frame, &named));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_hit(it->policy, FRAMES, EBBPOOL_READ));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_hit(it->policy, 0, 7));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_admit(it->policy, 0));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_refuse(it->policy));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_costs(it->policy, -1e300, 1));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_victims(it->policy, none, NULL, 1, NULL, &named));
    it->refused++;
}

static void reference(buffer *it, uint64_t page, uint32_t access)
{
    int at = it->frame_of[page];
    if (at != NOT_RESIDENT) {
        OK(ebbpool_policy_hit(it->policy, (uint32_t)at, EBBPOOL_READ));
    } else {
        int32_t evict_first;
        OK(ebbpool_policy_miss(it->policy, page, 1 + (uint32_t)page / 100, EBBPOOL_READ, &evict_first));
        if (evict_first)
            make_room(it);
        for (at = 0; it->used[at]; at++)
            continue;
        it->reads++;
        it->page[at] = page;
        it->used[at] = 1;
        it->frame_of[page] = at;
        OK(ebbpool_policy_admit(it->policy, (uint32_t)at));
    }
    if (access == EBBPOOL_WRITE) {
        it->dirty[at] = 1;
        OK(ebbpool_policy_wrote(it->policy, (uint32_t)at));
    }
}

/* Writes in advance what the policy would evict soon. */
static void clean(buffer *it)
{
    uint32_t frames[16];
    size_t named;
    OK(ebbpool_policy_dirty_ranking(it->policy, NULL, NULL, 16, frames, &named));
    for (size_t at = 0; at < named && at < 2; at++) {
        CHECK(it->dirty[frames[at]]);
        it->dirty[frames[at]] = 0;
        it->writes++;
        OK(ebbpool_policy_cleaned(it->policy, frames[at]));
    }
}

/* Makes the next reference of all that the processes make together; returns 0 after the last one. */
static int step(buffer *it)
{
    int goes_on = 0;
    CHECK(pthread_mutex_lock(&it->lock) == 0);
    if (it->next < REFERENCES) {
        uint64_t random = (uint64_t)(it->next + 1) * 6364136223846793005u;
        random = (random ^ random >> 31) * 1442695040888963407u;
        uint64_t page = (random >> 33) % PAGES * ((random >> 45) % PAGES) / PAGES;
        reference(it, page, page % 3 == 0 ? EBBPOOL_WRITE : EBBPOOL_READ);
        if (it->next % 50 == 0)
            clean(it);
        if (it->next % 1000 == 0)
            wrong_calls(it);
        it->next++;
        goes_on = 1;
    }
    CHECK(pthread_mutex_unlock(&it->lock) == 0);
    return goes_on;
}

static void *shared(size_t size)
{
    void *start = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(start != MAP_FAILED);
    return start;
}

static buffer *new_buffer(void)
{
    buffer *it = shared(sizeof *it);
    pthread_mutexattr_t attributes;
    CHECK(pthread_mutexattr_init(&attributes) == 0);
    CHECK(pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED) == 0);
    CHECK(pthread_mutex_init(&it->lock, &attributes) == 0);
    for (int page = 0; page < PAGES; page++)
        it->frame_of[page] = NOT_RESIDENT;
    return it;
}

/* Makes all references. Allocates nothing if the policy does not. */
static void run(buffer *it, int must_not_allocate)
{
    long before = allocations;
    while (step(it))
        continue;
    CHECK(!must_not_allocate || allocations == before);
}

/* The same in some processes, which take turns. */
static void run_in_children(buffer *it)
{
    for (int child = 0; child < CHILDREN; child++) {
        pid_t process = fork();
        CHECK(process >= 0);
        if (process == 0) {
            long before = allocations;
            do {
                usleep(10);
            } while (step(it));
            CHECK(allocations == before);
            OK(ebbpool_policy_destroy(it->policy));
            _exit(0);
        }
    }
    for (int child = 0; child < CHILDREN; child++) {
        int status;
        CHECK(wait(&status) > 0 && status == 0);
    }
}

static void processes_that_take_turns(const char *directory)
{
    (void)directory;
    const char *specs[] = {"ebb", "lru", "cflru:window=0.5", "clock"};
    for (size_t at = 0; at < sizeof specs / sizeof *specs; at++) {
        buffer *alone = new_buffer(), *together = new_buffer();
        OK(ebbpool_policy_new(specs[at], FRAMES, &alone->policy));
        size_t size;
        long before = allocations;
        OK(ebbpool_policy_bytes(specs[at], FRAMES, &size));
#ifdef __GLIBC__
        CHECK(allocations > before);
#endif
        OK(ebbpool_policy_new_in(specs[at], FRAMES, shared(size), size, &together->policy));
        OK(ebbpool_policy_costs(alone->policy, 100, 800));
        OK(ebbpool_policy_costs(together->policy, 100, 800));
        run(alone, 0);
        run_in_children(together);
        CHECK(alone->reads > 1000 && alone->writes > 100 && together->refused > 10);
        CHECK(together->reads == alone->reads && together->writes == alone->writes);
        /* The children destroyed it, which has no effect. */
        together->next = 0;
        run(together, 1);
        OK(ebbpool_policy_destroy(alone->policy));
    }
}

static int32_t ends(void *context, uint32_t frame)
{
    (void)context;
    (void)frame;
    _exit(0);
}

static void a_process_that_ends_during_a_call(const char *directory)
{
    (void)directory;
    size_t size;
    OK(ebbpool_policy_bytes("lru", 2, &size));
    void *region = shared(size);
    ebbpool_policy *policy;
    ebbpool_eviction plan;
    int32_t evict_first;
    OK(ebbpool_policy_new_in("lru", 2, region, size, &policy));
    OK(ebbpool_policy_miss(policy, 1, 0, EBBPOOL_READ, &evict_first));
    OK(ebbpool_policy_admit(policy, 0));
    pid_t process = fork();
    CHECK(process >= 0);
    if (process == 0)
        ebbpool_policy_victim(policy, ends, NULL, 1, &plan);
    CHECK(wait(NULL) > 0);
    EXPECT(EBBPOOL_BUSY, ebbpool_policy_hit(policy, 0, EBBPOOL_READ));
    OK(ebbpool_policy_destroy(policy));
    OK(ebbpool_policy_new_in("lru", 2, region, size, &policy));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_hit(policy, 0, EBBPOOL_READ));
}

/* The bytes of this process's address space. */
static size_t address_space(void)
{
    unsigned long pages;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file != NULL && fscanf(file, "%lu", &pages) == 1 && fclose(file) == 0);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* Leaves this process that many bytes. */
static void leave(size_t bytes)
{
    struct rlimit limit = {address_space() + bytes, RLIM_INFINITY};
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
}

static void processes_with_little_memory(const char *directory)
{
    (void)directory;
    const uint32_t frames = 600000;
    const char *specs[] = {"ebb", "lru", "lru:cluster=4", "fd-buffer", "ace:policy=fab"};
    for (size_t at = 0; at < sizeof specs / sizeof *specs; at++) {
        size_t size;
        OK(ebbpool_policy_bytes(specs[at], frames, &size));
        void *region = shared(size);
        for (size_t tenths = 0; tenths < 10; tenths++) {
            pid_t process = fork();
            CHECK(process >= 0);
            if (process == 0) {
                ebbpool_policy *policy;
                size_t bytes;
                leave((1 << 20) + size / 10 * tenths);
                /* It needs a policy's memory once more, or refuses. */
                ebbpool_status status = ebbpool_policy_bytes(specs[at], frames, &bytes);
                CHECK(status == EBBPOOL_NO_MEMORY || (status == EBBPOOL_OK && bytes == size));
                /* This needs the region only. */
                OK(ebbpool_policy_new_in(specs[at], frames, region, size, &policy));
                _exit(0);
            }
            int status;
            CHECK(wait(&status) > 0 && status == 0);
        }
        CHECK(munmap(region, size) == 0);
    }
}

int main(int count, char **arguments)
{
    group groups[] = {
        {"processes that take turns", processes_that_take_turns},
        {"a process that ends during a call", a_process_that_ends_during_a_call},
        {"processes with little memory", processes_with_little_memory},
    };
    return RUN(groups, count, arguments);
}

/* What a policy saves in a buffer manager of the program: a page table, frames and dirty bits, and the policy alone. */
#include <stdio.h>
#include <stdlib.h>

#include <ebbpool.h>

enum { PAGES = 1000, FRAMES = 50, NOT_RESIDENT = -1 };

typedef struct frame {
    uint64_t page;
    int dirty, fixed, used;
} frame;

typedef struct buffer {
    ebbpool_policy *policy;
    frame frames[FRAMES];
    int frame_of[PAGES]; /* the page table */
    long reads, writes;
} buffer;

static void check(ebbpool_status status)
{
    if (status != EBBPOOL_OK) {
        fprintf(stderr, "%s\n", ebbpool_error_message());
        exit(1);
    }
}

static int32_t may_evict(void *context, uint32_t frame)
{
    return !((buffer *)context)->frames[frame].fixed;
}

static void write_if_dirty(buffer *it, uint32_t at)
{
    if (it->frames[at].dirty) {
        it->writes++; /* here the page is written */
        it->frames[at].dirty = 0;
    }
}

static void evict(buffer *it)
{
    ebbpool_eviction plan;
    check(ebbpool_policy_victim(it->policy, may_evict, it, FRAMES, &plan));
    write_if_dirty(it, plan.frame);
    it->frame_of[it->frames[plan.frame].page] = NOT_RESIDENT;
    it->frames[plan.frame].used = 0;
    check(ebbpool_policy_evicted(it->policy, plan.frame));
}

static void reference(buffer *it, uint64_t page, uint32_t access)
{
    int at = it->frame_of[page];
    if (at != NOT_RESIDENT) {
        check(ebbpool_policy_hit(it->policy, (uint32_t)at, access));
    } else {
        int32_t evict_first;
        check(ebbpool_policy_miss(it->policy, page, 0, access, &evict_first));
        if (evict_first)
            evict(it);
        for (at = 0; it->frames[at].used; at++)
            continue;
        it->reads++; /* here the page is read */
        it->frames[at] = (frame){.page = page, .used = 1};
        it->frame_of[page] = at;
        check(ebbpool_policy_admit(it->policy, (uint32_t)at));
    }
    it->frames[at].dirty |= access == EBBPOOL_WRITE;
}

static void run(const char *policy)
{
    buffer it = {.policy = NULL};
    for (int page = 0; page < PAGES; page++)
        it.frame_of[page] = NOT_RESIDENT;
    check(ebbpool_policy_new(policy, FRAMES, &it.policy));
    check(ebbpool_policy_costs(it.policy, 100, 800)); /* µs: a write costs 8 reads */
    uint64_t random = 1;
    for (int at = 0; at < 100000; at++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        uint64_t page = (random >> 33) % PAGES * ((random >> 50) % PAGES) / PAGES; /* small numbers more often */
        reference(&it, page, page % 3 == 0 ? EBBPOOL_WRITE : EBBPOOL_READ);
    }
    printf("%-16s %6ld reads %6ld writes, cost %7ld\n", policy, it.reads, it.writes, it.reads + 8 * it.writes);
    check(ebbpool_policy_destroy(it.policy));
}

int main(void)
{
    run("lru");
    run("cflru:window=0.5");
    run("ebb");
    return 0;
}

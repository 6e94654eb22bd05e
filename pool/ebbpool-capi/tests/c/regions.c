/* Policies in memory of the program. */
#define _GNU_SOURCE /* for MAP_ANONYMOUS */
#include "check.h"

#include <sys/mman.h>

enum { FRAMES = 120 };

static void *mapped(size_t size)
{
    void *start = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(start != MAP_FAILED);
    return start;
}

/* Fills the frames, then evicts and admits some pages. */
static void replace_pages(ebbpool_policy *policy)
{
    for (uint32_t at = 0; at < 1000; at++) {
        int32_t evict_first;
        uint32_t frame = at;
        size_t named;
        OK(ebbpool_policy_miss(policy, at % 300 * 7, 0, at % 2, &evict_first));
        CHECK(evict_first == (at >= FRAMES));
        if (evict_first) {
            OK(ebbpool_policy_victims(policy, NULL, NULL, 1, &frame, &named));
            OK(ebbpool_policy_evicted(policy, frame));
        }
        OK(ebbpool_policy_admit(policy, frame));
    }
}

static void regions_that_are_unmapped(const char *directory)
{
    (void)directory;
    for (int round = 0; round < 3; round++) {
        ebbpool_policy *policy;
        size_t size;
        OK(ebbpool_policy_bytes("arc", FRAMES, &size));
        void *region = mapped(size);
        OK(ebbpool_policy_new_in("arc", FRAMES, region, size, &policy));
        replace_pages(policy);
        CHECK(munmap(region, size) == 0);
        /* What takes memory now may get the same addresses. */
        ebbpool_pool *pool = open_memory(5000);
        fill(pool, 20);
        OK(ebbpool_policy_new("ebb", 5000, &policy));
        OK(ebbpool_policy_destroy(policy));
        OK(ebbpool_pool_destroy(pool));
    }
}

static void regions_that_are_refused(const char *directory)
{
    (void)directory;
    ebbpool_policy *policy;
    size_t size = 9;
    char *region = mapped(1 << 20);
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_bytes("lru", 10, NULL));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_bytes(NULL, 10, &size));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_bytes("lru", 0, &size));
    EXPECT(EBBPOOL_NOT_FOUND, ebbpool_policy_bytes("lrv", 10, &size));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_bytes("belady", 10, &size));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_bytes("sqlite:commit=90", 10, &size));
    CHECK(size == 0);
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_new_in("lru", 10, NULL, 1 << 20, &policy));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_new_in("lru", 10, region, SIZE_MAX, &policy));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_new_in("lru", 10, region, 0, &policy));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_new_in("lru", 10, region, 1 << 20, NULL));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_new_in("lru", UINT32_MAX, region, 1 << 20, &policy));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_new_in("sqlite:commit=90", 10, region, 1 << 20, &policy));
    EXPECT(EBBPOOL_NOT_FOUND, ebbpool_policy_new_in("lrv", 10, region, 1 << 20, &policy));
    CHECK(policy == NULL);
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_hits(NULL, NULL, NULL, 0));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_wrote(NULL, 0));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_victims(NULL, NULL, NULL, 0, NULL, NULL));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_dirty_ranking(NULL, NULL, NULL, 0, NULL, NULL));
    OK(ebbpool_policy_new_in("lru", 10, region + 3, (1 << 20) - 3, &policy));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_victims(policy, NULL, NULL, 0, NULL, NULL));
    OK(ebbpool_policy_victims(policy, NULL, NULL, 0, NULL, &size));
    OK(ebbpool_policy_dirty_ranking(policy, NULL, NULL, 0, NULL, &size));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_dirty_ranking(policy, NULL, NULL, 1, NULL, &size));
    OK(ebbpool_policy_hits(policy, NULL, NULL, 0));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_hits(policy, NULL, NULL, 1));
    char name[8];
    uint32_t properties;
    OK(ebbpool_policy_describe(policy, name, sizeof name, &size, &properties));
    CHECK(strcmp(name, "lru") == 0 && properties == EBBPOOL_POLICY_RANKS_DIRTY);
    OK(ebbpool_policy_destroy(policy));
    OK(ebbpool_policy_destroy(policy));
}

int main(int count, char **arguments)
{
    group groups[] = {
        {"regions that are unmapped", regions_that_are_unmapped},
        {"regions that are refused", regions_that_are_refused},
    };
    return RUN(groups, count, arguments);
}

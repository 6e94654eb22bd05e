/* Policies without a pool. */
#include "check.h"

#include <sys/stat.h>
#include <unistd.h>

static int32_t only_odd(void *context, uint32_t frame)
{
    (void)context;
    return frame % 2 == 1;
}

static int32_t none(void *context, uint32_t frame)
{
    (void)context;
    (void)frame;
    return 0;
}

static int32_t calls_the_policy(void *context, uint32_t frame)
{
    EXPECT(EBBPOOL_BUSY, ebbpool_policy_hit(context, frame, EBBPOOL_READ));
    EXPECT(EBBPOOL_BUSY, ebbpool_policy_destroy(context));
    return 1;
}

static void policies_that_are_refused(const char *directory)
{
    (void)directory;
    ebbpool_policy *policy;
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_new(NULL, 10, &policy));
    CHECK(policy == NULL);
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_new("lru", 10, NULL));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_new("lru", 0, &policy));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_new("lru", UINT32_MAX, &policy));
    EXPECT(EBBPOOL_NOT_FOUND, ebbpool_policy_new("lrv", 10, &policy));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_new("belady", 10, &policy));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_new("cflru-e", 10, &policy));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_new("cflru:window=7.5", 10, &policy));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_new("\xff", 10, &policy));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_hit(NULL, 0, EBBPOOL_READ));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_hits_left_out(NULL, 1));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_miss(NULL, 0, 0, EBBPOOL_READ, NULL));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_victim(NULL, NULL, NULL, 1, NULL));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_evicted(NULL, 0));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_dropped(NULL, 0));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_cleaned(NULL, 0));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_admit(NULL, 0));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_refuse(NULL));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_costs(NULL, 1, 1));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_describe(NULL, NULL, 0, NULL, NULL));
    OK(ebbpool_policy_destroy(NULL));
}

static void devices(const char *directory)
{
    double asymmetry = 7;
    EXPECT(EBBPOOL_NOT_FOUND, ebbpool_device_asymmetry("flash-135", 0, &asymmetry));
    CHECK(asymmetry == 0 && strstr(ebbpool_error_message(), "did you mean 'flash-136'?"));
    OK(ebbpool_device_asymmetry("flash-136", 0, &asymmetry));
    CHECK(fabs(asymmetry - 136.2) < 0.01);
    double large;
    OK(ebbpool_device_asymmetry("sd-a1", 0, &asymmetry));
    OK(ebbpool_device_asymmetry("SD-A1", 1 << 20, &large));
    CHECK(asymmetry > 1 && large > 1);
    OK(ebbpool_device_asymmetry("sd-a1", UINT64_MAX, &large));
    CHECK(isfinite(large));
    EXPECT(EBBPOOL_IO, ebbpool_device_asymmetry("/no/such/profile", 8192, &asymmetry));
    EXPECT(EBBPOOL_INVALID, ebbpool_device_asymmetry("/dev/null", 8192, &asymmetry));
    EXPECT(EBBPOOL_INVALID, ebbpool_device_asymmetry(NULL, 8192, &asymmetry));
    EXPECT(EBBPOOL_INVALID, ebbpool_device_asymmetry("sd-a1", 8192, NULL));

    /* A pipe without a writer. */
    char path[4096];
    snprintf(path, sizeof path, "%s/pipe.toml", directory);
    CHECK(mkfifo(path, 0600) == 0);
    alarm(10);
    EXPECT(EBBPOOL_INVALID, ebbpool_device_asymmetry(path, 8192, &asymmetry));
    alarm(0);
}

static void policies(const char *directory)
{
    (void)directory;
    ebbpool_policy *policy;
    ebbpool_eviction plan;
    int32_t evict;
    OK(ebbpool_policy_new("lru", 4, &policy));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_hit(policy, 0, EBBPOOL_READ));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_hit(policy, 4, EBBPOOL_READ));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_admit(policy, 0));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_refuse(policy));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_victim(policy, NULL, NULL, 1, &plan));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_miss(policy, 7, 0, EBBPOOL_NEW, &evict));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_miss(policy, 7, 0, EBBPOOL_READ, NULL));
    for (uint32_t frame = 0; frame < 4; frame++) {
        OK(ebbpool_policy_miss(policy, 100 + frame, 0, EBBPOOL_WRITE, &evict));
        CHECK(evict == 0);
        EXPECT(EBBPOOL_INVALID, ebbpool_policy_miss(policy, 1, 0, EBBPOOL_READ, &evict));
        EXPECT(EBBPOOL_INVALID, ebbpool_policy_refuse(policy));
        EXPECT(EBBPOOL_INVALID, ebbpool_policy_admit(policy, 4));
        OK(ebbpool_policy_admit(policy, frame));
    }
    OK(ebbpool_policy_hit(policy, 0, EBBPOOL_READ));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_hit(policy, 0, 2));
    OK(ebbpool_policy_cleaned(policy, 1));
    OK(ebbpool_policy_cleaned(policy, 1));
    OK(ebbpool_policy_hits_left_out(policy, 3));

    OK(ebbpool_policy_miss(policy, 200, 3, EBBPOOL_READ, &evict));
    CHECK(evict == 1);
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_hit(policy, 0, EBBPOOL_READ));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_admit(policy, 1));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_victim(policy, NULL, NULL, 1, NULL));
    EXPECT(EBBPOOL_ALL_FIXED, ebbpool_policy_victim(policy, none, NULL, 1, &plan));
    CHECK(plan.frame == UINT32_MAX && plan.together_count == 0);
    OK(ebbpool_policy_victim(policy, calls_the_policy, policy, 1, &plan));
    CHECK(plan.frame == 1);
    OK(ebbpool_policy_victim(policy, only_odd, NULL, 1, &plan));
    CHECK(plan.frame == 1 && plan.together_count == 0 && plan.also_evicted_count == 0 && plan.block_pages == 0);
    OK(ebbpool_policy_evicted(policy, plan.frame));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_evicted(policy, plan.frame));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_cleaned(policy, plan.frame));
    OK(ebbpool_policy_admit(policy, plan.frame));
    OK(ebbpool_policy_victim(policy, NULL, NULL, 1, &plan));
    CHECK(plan.frame == 2);
    OK(ebbpool_policy_miss(policy, 201, 0, EBBPOOL_READ, &evict));
    OK(ebbpool_policy_refuse(policy));
    OK(ebbpool_policy_dropped(policy, 3));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_dropped(policy, 3));

    EXPECT(EBBPOOL_INVALID, ebbpool_policy_costs(policy, 0, 1));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_costs(policy, 1, -1));
    EXPECT(EBBPOOL_INVALID, ebbpool_policy_costs(policy, NAN, 1));
    OK(ebbpool_policy_costs(policy, 1, 8));
    char name[64];
    size_t length;
    uint32_t properties = 99;
    OK(ebbpool_policy_describe(policy, name, sizeof name, &length, &properties));
    CHECK(strcmp(name, "lru") == 0 && length == 3 && properties == EBBPOOL_POLICY_RANKS_DIRTY);
    OK(ebbpool_policy_destroy(policy));
    OK(ebbpool_policy_new("ebb", 1000, &policy));
    OK(ebbpool_policy_describe(policy, NULL, 0, NULL, &properties));
    CHECK((properties & EBBPOOL_POLICY_COSTS) && (properties & EBBPOOL_POLICY_CLASSES));
    OK(ebbpool_policy_destroy(policy));
}

int main(int count, char **arguments)
{
    group groups[] = {
        {"policies that are refused", policies_that_are_refused},
        {"devices", devices},
        {"policies", policies},
    };
    return RUN(groups, count, arguments);
}

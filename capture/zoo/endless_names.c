// Looks like a PostgreSQL server without USDT probes. After a line of input it requests pages: with the argument "one" of one
// relation, else of a new relation each time.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

char descriptors[16 * 64];
char *BufferDescriptors = descriptors;
int NBuffers = 16;
int PostmasterPid;
long PgStartTime = 1;

// RelationData of PostgreSQL 15, as far as a request looks at it.
struct relation {
    unsigned tablespace, database, number;
    char room[16];
    int backend;
};

__attribute__((noinline)) int ReadBufferExtended(struct relation *relation, int fork, unsigned page) {
    __asm__ volatile("" : "+r"(relation), "+r"(fork), "+r"(page));
    return page;
}
__attribute__((noinline)) int MarkBufferDirty(int number) {
    __asm__ volatile("" : "+r"(number));
    return number;
}
__attribute__((noinline)) int MarkBufferDirtyHint(int number) {
    __asm__ volatile("" : "+r"(number));
    return number;
}

int main(int count, char **words) {
    struct relation relation = {1663, 5, 16384, "", -1};
    int one = count > 1 && strcmp(words[1], "one") == 0;
    char line[16];
    PostmasterPid = getpid();
    puts("ready");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin)) return 1;
    for (unsigned turn = 0;; turn++) {
        if (!one) relation.number++;
        ReadBufferExtended(&relation, 0, turn % 2);
        if (one) usleep(1000);
    }
}

// Looks like a PostgreSQL server without USDT probes for reads. After a line of input it requests pages: with the argument "one" of
// one relation, with "forks" of forks that PostgreSQL does not have, else of a new relation each time. With "extends" it says again
// and again that 65,536 pages were added, as versions from 16 on may.
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

__attribute__((noinline)) void extended(int fork, int tablespace, int database, int relation, int backend, int pages) {
#ifdef __x86_64__
    __asm__ volatile("990: nop\n"
                     ".pushsection .note.stapsdt, \"\", \"note\"\n.balign 4\n.4byte 8, 992f - 991f, 3\n.asciz \"stapsdt\"\n"
                     "991: .8byte 990b, 0, 0\n.asciz \"postgresql\"\n.asciz \"buffer__extend__done\"\n"
                     ".asciz \"4@%%edi 4@%%esi 4@%%edx 4@%%ecx -4@%%r8d 4@%%r9d 4@%%edi\"\n992: .balign 4\n.popsection\n"
                     :
                     : "D"(fork), "S"(tablespace), "d"(database), "c"(relation));
#endif
    (void)backend, (void)pages;
}

int main(int count, char **words) {
    struct relation relation = {1663, 5, 16384, "", -1};
    const char *word = count > 1 ? words[1] : "";
    int one = !strcmp(word, "one"), forks = !strcmp(word, "forks"), extends = !strcmp(word, "extends");
    char line[16];
    PostmasterPid = getpid();
    puts("ready");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin)) return 1;
    for (unsigned turn = 0;; turn++) {
        if (!one && !forks) relation.number++;
        if (extends) extended(0, 1663, 5, 16384, -1, 65536);
        else ReadBufferExtended(&relation, forks ? 3 + turn % 1000 : 0, turn % 2);
        if (one) usleep(1000);
    }
}

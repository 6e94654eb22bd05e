// Looks like a PostgreSQL server without USDT probes, and becomes another program when its input has a line: the one that its
// first argument names. As "victim" it is a program that has nothing to do with captures.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

char descriptors[16 * 64];
char *BufferDescriptors = descriptors;
int NBuffers = 16;
int PostmasterPid;
long PgStartTime = 1;

#define PROBED(name) \
    __attribute__((noinline)) int name(int number) { \
        __asm__ volatile("" : "+r"(number)); \
        return number + 1; \
    }
PROBED(ReadBufferExtended)
PROBED(MarkBufferDirty)
PROBED(MarkBufferDirtyHint)

int main(int count, char **words) {
    char line[16];
    PostmasterPid = getpid();
    if (count < 2) return 2;
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin) && strcmp(words[1], "victim") == 0) {
        printf("sum %d\n", ReadBufferExtended(1) + MarkBufferDirty(2) + MarkBufferDirtyHint(3));
        fflush(stdout);
    }
    if (strcmp(words[1], "victim") != 0) execl(words[1], words[1], "victim", (char *)0);
    return 0;
}

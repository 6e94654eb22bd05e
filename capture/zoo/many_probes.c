// Looks like a PostgreSQL server with 5000 times the probe of a request, each of which the kernel would have to attach.
#include <stdio.h>
#include <unistd.h>

char descriptors[16 * 64];
char *BufferDescriptors = descriptors;
int NBuffers = 16;
int PostmasterPid;
long PgStartTime = 1;

int MarkBufferDirty(int number) { return number; }
int MarkBufferDirtyHint(int number) { return number; }

__asm__(".pushsection .note.stapsdt, \"\", \"note\"\n"
        ".balign 4\n"
        ".rept 5000\n"
        ".4byte 8, 2f - 1f, 3\n"
        ".asciz \"stapsdt\"\n"
        "1: .8byte main, 0, 0\n"
        ".asciz \"postgresql\"\n"
        ".asciz \"buffer__read__done\"\n"
        ".asciz \"4@%esi 4@%edi 4@%edi 4@%edi 4@%edi -4@%edi 1@%edi 1@%edi\"\n"
        "2: .balign 4\n"
        ".endr\n"
        ".popsection\n");

int main(void) {
    char line[16];
    PostmasterPid = getpid();
    puts("ready");
    fflush(stdout);
    return !fgets(line, sizeof line, stdin);
}

// Has 16 files of 1 GiB each in its memory, as if they were code.
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

int main(void) {
    char name[16], line[16];
    for (int file = 0; file < 16; file++) {
        snprintf(name, sizeof name, "large%d", file);
        int opened = open(name, O_RDWR | O_CREAT, 0600);
        if (opened < 0 || ftruncate(opened, 1 << 30)) return 1;
        if (mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, opened, 0) == MAP_FAILED) return 1;
    }
    puts("ready");
    fflush(stdout);
    return !fgets(line, sizeof line, stdin);
}

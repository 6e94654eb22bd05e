// Maps a file without an end as a program, as some just-in-time compilers do.
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

int main(void) {
    char line[16];
    int file = open("/dev/zero", O_RDWR);
    if (mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0) == MAP_FAILED) return 1;
    close(file);
    puts("ready");
    fflush(stdout);
    fgets(line, sizeof line, stdin);
    return 0;
}

/* The stopwatch: starts the commands of a file, one a line, words separated by
 * tabs, in an order that is shuffled every round, and prints a line for each
 * run: number of the command, wall and CPU microseconds, peak memory in KiB, status. It is a
 * small C program because a child's peak memory begins with its parent's.
 * usage: spawn FILE ROUNDS WARMUP */
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

int main(int argc, char **argv)
{
	static char text[1 << 16];
	char *cmd[64][256];
	int n = 0, order[64], round, i;
	FILE *f = fopen(argv[1], "r");

	while (f && n < 64 && fgets(text, sizeof text, f)) {
		int words = 0;
		char *line = strdup(text), *word;
		line[strcspn(line, "\n")] = 0;
		while (words < 255 && (word = strsep(&line, "\t")))
			cmd[n][words++] = word;
		cmd[n][words] = NULL;
		order[n] = n;
		n++;
	}
	posix_spawn_file_actions_t quiet;
	posix_spawn_file_actions_init(&quiet);
	posix_spawn_file_actions_addopen(&quiet, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_addopen(&quiet, 2, "/dev/null", O_WRONLY, 0);
	srand(1);
	for (round = -atoi(argv[3]); round < atoi(argv[2]); round++) {
		for (i = n - 1; i > 0; i--) {
			int j = rand() % (i + 1), t = order[i];
			order[i] = order[j];
			order[j] = t;
		}
		for (i = 0; i < n; i++) {
			int c = order[i], status = -1;
			struct timespec a, b;
			struct rusage u = { 0 };
			pid_t pid;
			clock_gettime(CLOCK_MONOTONIC, &a);
			if (posix_spawn(&pid, cmd[c][0], &quiet, NULL, cmd[c], environ) == 0)
				wait4(pid, &status, 0, &u);
			clock_gettime(CLOCK_MONOTONIC, &b);
			if (round >= 0)
				printf("%d %ld %ld %ld %d\n", c, (b.tv_sec - a.tv_sec) * 1000000 + (b.tv_nsec - a.tv_nsec) / 1000,
				       (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 + u.ru_utime.tv_usec + u.ru_stime.tv_usec,
				       u.ru_maxrss, status);
		}
	}
	return 0;
}

/* The stopwatch: starts the commands of a file in an order that is shuffled
 * every round, and prints a line for each counted run: number of the command, round,
 * wall and CPU microseconds, peak memory in KiB, minor page faults, status. A line of
 * the file is a number and the words of a command, separated by tabs; a command with
 * the number N runs in every Nth round only. With a UID it is that user first. It is a small C
 * program because a child's peak memory begins with its parent's.
 * usage: spawn FILE ROUNDS WARMUP [UID] */
#define _GNU_SOURCE
#include <fcntl.h>
#include <grp.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { COMMANDS = 64, WORDS = 1024 };

int main(int argc, char **argv)
{
	static char text[1 << 17];
	static char *cmd[COMMANDS][WORDS + 1];
	int n = 0, every[COMMANDS], order[COMMANDS], round, i;
	FILE *f = fopen(argv[1], "r");

	if (!f) {
		perror(argv[1]);
		return 1;
	}
	while (n < COMMANDS && fgets(text, sizeof text, f)) {
		int words = 0;
		char *line = strdup(text), *word;
		line[strcspn(line, "\n")] = 0;
		every[n] = atoi(strsep(&line, "\t"));
		while (words < WORDS && (word = strsep(&line, "\t")))
			cmd[n][words++] = word;
		order[n] = n;
		n++;
	}
	fclose(f);
	if (argc > 4) {
		int uid = atoi(argv[4]);
		if (setgroups(0, NULL) || setresgid(uid, uid, uid) || setresuid(uid, uid, uid)) {
			perror("setuid");
			return 1;
		}
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
			if (round % every[c])
				continue;
			clock_gettime(CLOCK_MONOTONIC, &a);
			if (posix_spawn(&pid, cmd[c][0], &quiet, NULL, cmd[c], environ) == 0)
				wait4(pid, &status, 0, &u);
			clock_gettime(CLOCK_MONOTONIC, &b);
			if (round >= 0)
				printf("%d %d %.1f %ld %ld %ld %d\n", c, round, (b.tv_sec - a.tv_sec) * 1e6 + (b.tv_nsec - a.tv_nsec) / 1e3,
				       (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 + u.ru_utime.tv_usec + u.ru_stime.tv_usec,
				       u.ru_maxrss, u.ru_minflt, status);
		}
	}
	return 0;
}

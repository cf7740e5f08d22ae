package resolve

// Command is the program that will be run, found the way execvp(3) finds it.
type Command struct {
	Argv []string // as typed; Argv[0] is what the program sees as its name
	Path string   // what is handed to execve(2); empty when nothing was found

	// Missing says why there is nothing to run ("not found in PATH"); the
	// launcher ends with status 127. Empty when Path is set.
	Missing string
	// Doubt says what the system will object to when the exec fails although
	// Path exists ("its interpreter /opt/x does not exist"); status 126.
	Doubt string
}

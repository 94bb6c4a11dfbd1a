package process

import (
	"errors"
	"slices"
	"strings"
)

// What Windows asks of a command, kept here as text work without system calls, so that it is tested on every system.

// programExts are the endings that the system itself can run; with those of a script it only says that they are no
// program. cmd.exe runs the last two.
var programExts = []string{".com", ".exe", ".bat", ".cmd"}

// programNames are the file names that a command may have there, by PATHEXT: npx is npx.cmd.
func programNames(command, pathExt string) []string {
	if pathExt == "" {
		pathExt = ".COM;.EXE;.BAT;.CMD"
	}
	var names []string
	base := command[strings.LastIndexAny(command, `\/:`)+1:]
	if strings.Contains(base, ".") {
		names = append(names, command)
	}
	for ext := range strings.SplitSeq(strings.ToLower(pathExt), ";") {
		if slices.Contains(programExts, ext) {
			names = append(names, command+ext)
		}
	}
	return names
}

// isBatch tells whether the system takes the file for a batch file. It passes over dots and spaces at the end of a name,
// and takes the name of a stream in a file for part of it.
func isBatch(path string) bool {
	path = strings.ToLower(strings.TrimRight(path, ". "))
	return strings.HasSuffix(path, ".cmd") || strings.HasSuffix(path, ".bat")
}

var (
	errBatchArgument = errors.New(`an argument of a batch file must not contain " % ! or a line break: ` +
		`cmd.exe would change it; run the program behind the batch file instead, for npx node.exe and npx-cli.js`)
	errBatchName = errors.New(`a batch file whose path contains " or % cannot be run safely: cmd.exe would change it`)
	errNul       = errors.New("an argument must not contain a zero byte")
)

// checkBatch refuses what cmd.exe would take for more than text though it stands in quotes: quotes themselves, variables,
// those of delayed expansion, which a batch file may turn on, and ends of lines.
func checkBatch(path string, args []string) error {
	if !isBatch(path) {
		return nil
	}
	if strings.ContainsAny(path, "\"%\r\n\x00") {
		return errBatchName
	}
	for _, arg := range args {
		switch {
		case strings.Contains(arg, "\x00"):
			return errNul
		case strings.ContainsAny(arg, "\"%!\r\n\x1a"):
			return errBatchArgument
		}
	}
	return nil
}

// batchLine is the command line by which cmd.exe runs a batch file. The system would make one itself, but with the command
// as it was typed, which cmd.exe looks for in the working directory first; with arguments quoted only for the sake of
// spaces, so that & starts a second command (CVE-2024-24576 and its like); and with what the registry wants to be run
// before.
//
// /d: nothing from the registry. /e:on: extensions, which the batch files of npm count on. /v:off: ! is no variable. /s: only
// the outermost quotes are taken off. Within the inner ones & | < > ^ ( ) are text. A backslash before a quote is doubled
// for the program behind the batch file, which splits its command line by the rules of C.
func batchLine(shell, path string, args []string) string {
	var b strings.Builder
	b.WriteString(`"` + shell + `" /d /e:on /v:off /s /c ""` + path + `"`)
	for _, arg := range args {
		b.WriteString(` "` + arg)
		for i := len(arg); i > 0 && arg[i-1] == '\\'; i-- {
			b.WriteByte('\\')
		}
		b.WriteByte('"')
	}
	b.WriteByte('"')
	return b.String()
}

package process

import (
	"errors"
	"slices"
	"strings"
)

// The rules of Windows for commands, as text functions without system calls, so that they are tested on every system.

// programExts are the file name extensions that the system itself can run. cmd.exe runs the last two.
var programExts = []string{".com", ".exe", ".bat", ".cmd"}

// programNames returns the file names that a command may have on Windows, by PATHEXT: npx is npx.cmd.
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

// isBatch reports whether the system treats the file as a batch file. Windows ignores trailing dots and spaces, and
// treats the name of an alternate stream as part of the file name.
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

// checkBatch refuses what cmd.exe interprets even within quotes: quotes, variables, delayed expansion, which a batch file
// may turn on, and line breaks.
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

// batchLine returns the command line with which cmd.exe runs a batch file. The system's own command line would be unsafe:
// it uses the command as typed, which cmd.exe looks up in the working directory first; it quotes arguments for spaces
// only, so that & starts a second command (CVE-2024-24576 and the like); and it runs the registry's AutoRun commands
// first.
//
// /d skips AutoRun. /e:on enables the extensions that npm's batch files need. /v:off disables ! variables. /s strips only
// the outermost quotes. Within the inner quotes & | < > ^ ( ) are text. A backslash before a quote is doubled for the
// program behind the batch file, which splits its command line by the rules of C.
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

package process

import (
	"errors"
	"slices"
	"testing"
)

func TestProgramNames(t *testing.T) {
	t.Parallel()
	f := func(command, pathExt string, want ...string) {
		t.Helper()
		if got := programNames(command, pathExt); !slices.Equal(got, want) {
			t.Errorf("%q, %q: got %q", command, pathExt, got)
		}
	}
	f(`C:\bin\npx`, "", `C:\bin\npx.com`, `C:\bin\npx.exe`, `C:\bin\npx.bat`, `C:\bin\npx.cmd`)
	f(`C:\bin.d\npx`, ".CMD;.EXE", `C:\bin.d\npx.cmd`, `C:\bin.d\npx.exe`)
	f(`C:\bin\npx.cmd`, ".EXE", `C:\bin\npx.cmd`, `C:\bin\npx.cmd.exe`)
	f(`C:\bin\python3.12`, ".EXE;;.VBS;.JS;EXE", `C:\bin\python3.12`, `C:\bin\python3.12.exe`) // scripts are no programs
	f(`./a`, ".exe", `./a.exe`)
}

func TestIsBatch(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{
		`C:\a.cmd`: true, `C:\a.BAT`: true, `C:\a.Cmd. .`: true, `C:\a.bat `: true, `C:\a.txt:b.cmd`: true,
		`C:\a.exe`: false, `C:\cmd`: false, `C:\a.cmd\b.exe`: false, `C:\a.cmdx`: false, "": false,
	} {
		if got := isBatch(path); got != want {
			t.Errorf("%q: got %v", path, got)
		}
	}
}

func TestCheckBatch(t *testing.T) {
	t.Parallel()
	f := func(path string, want error, args ...string) {
		t.Helper()
		if err := checkBatch(path, args); !errors.Is(err, want) {
			t.Errorf("%q, %q: got %v", path, args, err)
		}
	}
	hostile := []string{`"`, `a"&calc"`, `%PATH%`, `100%`, `!x!`, "a\nb", "a\rb", "\x1a"}
	for _, arg := range hostile {
		f(`C:\npx.cmd`, errBatchArgument, "-y", arg)
		f(`C:\npx.BAT. `, errBatchArgument, arg)
		f(`C:\node.exe`, nil, arg)
	}
	f(`C:\npx.cmd`, errNul, "a\x00b")
	f(`C:\npx.cmd`, nil)
	f(`C:\npx.cmd`, nil, "", "a b", `C:\dir\`, "foo@^1.2", "a>=1", "https://h/?a=b&c=d", "(x)", "a|b", "ü", "a,b;c=d")
	f(`C:\a & b ^ (c)\npx.cmd`, nil, "x")
	f(`C:\100%\npx.cmd`, errBatchName)
	f(`C:\100%\node.exe`, nil)
}

func TestBatchLine(t *testing.T) {
	t.Parallel()
	f := func(path string, args []string, want string) {
		t.Helper()
		if got := batchLine(`C:\W\cmd.exe`, path, args); got != `"C:\W\cmd.exe" /d /e:on /v:off /s /c "`+want+`"` {
			t.Errorf("%q: got %s", args, got)
		}
	}
	f(`C:\a & b\npx.cmd`, nil, `"C:\a & b\npx.cmd"`)
	f(`C:\npx.cmd`, []string{"-y", "", "a b", "x&y"}, `"C:\npx.cmd" "-y" "" "a b" "x&y"`)
	f(`C:\npx.cmd`, []string{`C:\dir\`, `\\s\d\\`, `a\b`}, `"C:\npx.cmd" "C:\dir\\" "\\s\d\\\\" "a\b"`)
}

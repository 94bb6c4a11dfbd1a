package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// errDirectory is the error for a directory in place of a program.
const errDirectory = syscall.ERROR_ACCESS_DENIED

// killCode is the exit code of processes that the proxy ends, one that programs hardly use themselves.
const killCode = uint32(windows.ERROR_PROCESS_ABORTED)

// ntResumeProcess resumes a process that was created suspended. The documented way is to search all threads of the system
// for its first one.
var ntResumeProcess = windows.NewLazySystemDLL("ntdll.dll").NewProc("NtResumeProcess")

// job is a child and all its descendants, in a Job Object of its own, which none of them can leave. The proxy has the
// only handle to it, so the system ends them all when the proxy ends, in whatever way. Processes that others start at
// their request are out of reach: services, scheduled tasks, programs started through WMI.
//
// If the proxy runs in a job itself, this job is nested in it (possible since Windows 8) and bound by its limits too.
type job struct {
	cmd    *exec.Cmd
	handle windows.Handle // of the Job Object
	child  windows.Handle // own handle to the child: while it is open, the child's id is not reused

	mu     sync.Mutex
	ended  bool      // the child has exited
	asked  time.Time // when they were asked to end; zero if they were not
	broken bool      // CTRL_BREAK was sent
	killed bool      // the proxy has ended them
}

// sysProcAttr protects the child from the console's Ctrl-C, and hides its window if it gets a console of its own because
// the proxy has none.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP, HideWindow: true}
}

// spawnTree starts a child with the three standard streams. It is created suspended and resumed in its job, so that no
// descendant can be outside. If the proxy is killed between the two, the child stays suspended.
func spawnTree(_ context.Context, c Command, path string, std [3]*os.File) (tree, int, error) {
	cmd := directCommand(c, path, std)
	if isBatch(path) {
		if err := throughShell(cmd); err != nil {
			return nil, 0, err
		}
	}
	cmd.SysProcAttr.CreationFlags |= windows.CREATE_SUSPENDED
	handle, err := newJob()
	if err != nil {
		return nil, 0, err
	}
	j := &job{cmd: cmd, handle: handle}
	if err := cmd.Start(); err != nil {
		j.close()
		if errors.Is(err, windows.ERROR_BAD_EXE_FORMAT) {
			err = fmt.Errorf("%w: %w", syscall.ENOEXEC, err)
		}
		return nil, 0, err
	}
	var inside error
	err = cmd.Process.WithHandle(func(h uintptr) { inside = j.adopt(windows.Handle(h)) })
	if err = errors.Join(err, inside); err != nil {
		_ = cmd.Process.Kill() // the child has not run yet
		_ = cmd.Wait()         // the error is expected
		j.close()
		return nil, 0, err
	}
	return j, cmd.Process.Pid, nil
}

// throughShell makes cmd.exe run a batch file.
func throughShell(cmd *exec.Cmd) error {
	system, err := windows.GetSystemDirectory()
	if err != nil {
		return err
	}
	shell := filepath.Join(system, "cmd.exe")
	cmd.SysProcAttr.CmdLine = batchLine(shell, cmd.Path, cmd.Args[1:])
	cmd.Path = shell
	return nil
}

// newJob makes a job whose processes end when its handle is closed.
func newJob() (windows.Handle, error) {
	handle, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return 0, os.NewSyscallError("CreateJobObject", err)
	}
	var limits windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	_, err = windows.SetInformationJobObject(handle, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits)))
	if err != nil {
		_ = windows.CloseHandle(handle)
		return 0, os.NewSyscallError("SetInformationJobObject", err)
	}
	return handle, nil
}

// adopt puts the child into the job and resumes it.
func (j *job) adopt(child windows.Handle) error {
	if err := windows.AssignProcessToJobObject(j.handle, child); err != nil {
		return fmt.Errorf("it cannot be put into a job object, without which nothing would end what it starts "+
			"(do we run in a job with limits on the user interface?): %w", os.NewSyscallError("AssignProcessToJobObject", err))
	}
	us := windows.CurrentProcess()
	if err := windows.DuplicateHandle(us, child, us, &j.child, 0, false, windows.DUPLICATE_SAME_ACCESS); err != nil {
		return os.NewSyscallError("DuplicateHandle", err)
	}
	if status, _, _ := ntResumeProcess.Call(uintptr(child)); status != 0 {
		return os.NewSyscallError("NtResumeProcess", windows.NTStatus(uint32(status)))
	}
	return nil
}

// wait blocks a thread until the child has exited, as every wait for a process does on Windows.
func (j *job) wait() outcome {
	_, _ = windows.WaitForSingleObject(j.child, windows.INFINITE) // cannot fail with an own handle
	j.mu.Lock()
	j.ended = true
	if j.asked.IsZero() {
		j.asked = time.Now()
		if j.alive() {
			j.ask()
		}
	}
	j.mu.Unlock()
	_ = j.cmd.Wait() // the error repeats ProcessState
	_ = windows.CloseHandle(j.child)
	j.child = 0
	if j.cmd.ProcessState == nil {
		return outcome{code: -1}
	}
	return j.outcome(uint32(j.cmd.ProcessState.ExitCode()))
}

// signal asks the processes to end for SIGTERM. For SIGKILL, or if they cannot be asked, it ends them at once.
func (j *job) signal(s syscall.Signal) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.ended {
		return
	}
	if s == syscall.SIGTERM {
		j.asked = time.Now()
		if j.ask() {
			return
		}
	}
	j.kill()
}

// ask sends CTRL_BREAK to the process group that the child leads, which is the nearest to SIGTERM: .NET, Go and Python
// servers can handle it, and by default it ends a program. It only reaches processes on the proxy's console; a service
// has none. It reports whether the event was sent. The caller holds mu, and child is open.
func (j *job) ask() bool {
	if windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(j.cmd.Process.Pid)) != nil {
		return false
	}
	j.broken = true
	return true
}

// kill ends all processes in the job. The caller holds mu, or wait has returned.
func (j *job) kill() {
	j.killed = true
	_ = windows.TerminateJobObject(j.handle, killCode) // cannot fail with an own handle that has all rights
}

// accounting is JOBOBJECT_BASIC_ACCOUNTING_INFORMATION.
type accounting struct {
	userTime, kernelTime, periodUserTime, periodKernelTime int64

	pageFaults, processes, active, terminated uint32
}

// alive reports whether a process in the job runs.
func (j *job) alive() bool {
	var a accounting
	err := windows.QueryInformationJobObject(j.handle, windows.JobObjectBasicAccountingInformation,
		uintptr(unsafe.Pointer(&a)), uint32(unsafe.Sizeof(a)), nil)
	return err == nil && a.active > 0
}

func (j *job) sweep(grace time.Duration) {
	defer j.close()
	empty := func(bool) bool { return !j.alive() }
	if emptyBy(j.asked.Add(grace), empty) { // asked does not change after wait
		return
	}
	j.kill()
	emptyBy(time.Now().Add(sweepKilled), empty)
}

// close closes the handles, which ends the processes that are still in the job.
func (j *job) close() {
	_ = windows.CloseHandle(j.handle)
	if j.child != 0 {
		_ = windows.CloseHandle(j.child)
	}
}

// outcome converts an exit code. It distinguishes the proxy's own signals from a code that the child chose.
func (j *job) outcome(code uint32) outcome {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.killed && code == killCode:
		return outcome{code: -1, signal: "TerminateJobObject"}
	case j.broken && windows.NTStatus(code) == windows.STATUS_CONTROL_C_EXIT:
		return outcome{code: -1, signal: "CTRL_BREAK"}
	}
	return outcome{code: int(code), signal: crashes[windows.NTStatus(code)]}
}

// crashes are the exit codes with which the system reports a crash.
var crashes = map[windows.NTStatus]string{
	windows.STATUS_ACCESS_VIOLATION:     "STATUS_ACCESS_VIOLATION",
	windows.STATUS_CONTROL_C_EXIT:       "STATUS_CONTROL_C_EXIT",
	windows.STATUS_DLL_INIT_FAILED:      "STATUS_DLL_INIT_FAILED",
	windows.STATUS_DLL_NOT_FOUND:        "STATUS_DLL_NOT_FOUND",
	windows.STATUS_ENTRYPOINT_NOT_FOUND: "STATUS_ENTRYPOINT_NOT_FOUND",
	windows.STATUS_HEAP_CORRUPTION:      "STATUS_HEAP_CORRUPTION",
	windows.STATUS_STACK_BUFFER_OVERRUN: "STATUS_STACK_BUFFER_OVERRUN", // also by abort() and a runtime's fatal error
	windows.STATUS_STACK_OVERFLOW:       "STATUS_STACK_OVERFLOW",
}

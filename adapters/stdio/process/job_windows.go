package process

import (
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

// killCode is the exit code that we give to those whom we end, one that programs hardly choose themselves.
const killCode = uint32(windows.ERROR_PROCESS_ABORTED)

// ntResumeProcess lets a process go on that was created suspended. The documented way is to look for its first thread
// among all threads of the system.
var ntResumeProcess = windows.NewLazySystemDLL("ntdll.dll").NewProc("NtResumeProcess")

// job is a child and everything that it starts, in a Job Object of its own, which nobody can leave: breaking away is not
// allowed. Ours is the only handle to it, so the system ends them all when we are gone, however we ended. What others start
// at their request is out of reach: services, scheduled tasks, programs started through WMI.
//
// Where we run in a job ourselves, this one lies within it (jobs nest since Windows 8) and is bound by its limits too.
type job struct {
	cmd    *exec.Cmd
	handle windows.Handle // of the Job Object
	child  windows.Handle // our own to the child: while it is open, the child's id is nobody else's

	mu     sync.Mutex
	ended  bool      // the child has exited
	asked  time.Time // when they were asked to go; zero if they were not
	broken bool      // by a CTRL_BREAK that got out
	killed bool      // we have ended them
}

// startJob starts the command. It is created suspended and goes on when it is in its job, so that nothing it starts can
// be outside. Should we be killed between the two, it stays behind suspended.
func startJob(cmd *exec.Cmd) (*job, error) {
	if isBatch(cmd.Path) {
		if err := throughShell(cmd); err != nil {
			return nil, err
		}
	}
	cmd.SysProcAttr.CreationFlags |= windows.CREATE_SUSPENDED
	handle, err := newJob()
	if err != nil {
		return nil, err
	}
	j := &job{cmd: cmd, handle: handle}
	if err := cmd.Start(); err != nil {
		j.close()
		if errors.Is(err, windows.ERROR_BAD_EXE_FORMAT) {
			err = fmt.Errorf("%w: %w", syscall.ENOEXEC, err)
		}
		return nil, err
	}
	var inside error
	err = cmd.Process.WithHandle(func(h uintptr) { inside = j.adopt(windows.Handle(h)) })
	if err = errors.Join(err, inside); err != nil {
		_ = cmd.Process.Kill() // it has not run yet
		_ = cmd.Wait()         // says that it was killed
		j.close()
		return nil, err
	}
	return j, nil
}

// throughShell has cmd.exe run a batch file.
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

// newJob makes a job that ends with its handle.
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

// adopt takes the child into the job and lets it run.
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

// wait keeps a thread until the child has exited, as every wait for a process does here.
func (j *job) wait() outcome {
	_, _ = windows.WaitForSingleObject(j.child, windows.INFINITE) // a handle of ours cannot fail it
	j.mu.Lock()
	j.ended = true
	if j.asked.IsZero() {
		j.asked = time.Now()
		if j.alive() {
			j.ask()
		}
	}
	j.mu.Unlock()
	_ = j.cmd.Wait() // says what ProcessState says
	_ = windows.CloseHandle(j.child)
	j.child = 0
	if j.cmd.ProcessState == nil {
		return outcome{code: -1}
	}
	return j.outcome(uint32(j.cmd.ProcessState.ExitCode()))
}

// signal asks for sigTerm, and ends them at once where nobody can be asked.
func (j *job) signal(s signalKind) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.ended {
		return
	}
	if s == sigTerm {
		j.asked = time.Now()
		if j.ask() {
			return
		}
	}
	j.kill()
}

// ask sends CTRL_BREAK to the process group that the child leads, which is as near to SIGTERM as it gets: .NET, Go and
// Python servers can hear it, and by default it ends a program. It gets only to those on the same console as we; a service
// has none. mu is held, and child is open.
func (j *job) ask() bool {
	if windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(j.cmd.Process.Pid)) != nil {
		return false
	}
	j.broken = true
	return true
}

// kill ends all who are in the job. mu is held, or wait is over.
func (j *job) kill() {
	j.killed = true
	_ = windows.TerminateJobObject(j.handle, killCode) // a handle of ours, with all rights, cannot fail it
}

// accounting is JOBOBJECT_BASIC_ACCOUNTING_INFORMATION.
type accounting struct {
	userTime, kernelTime, periodUserTime, periodKernelTime int64

	pageFaults, processes, active, terminated uint32
}

// alive tells whether anybody in the job runs.
func (j *job) alive() bool {
	var a accounting
	err := windows.QueryInformationJobObject(j.handle, windows.JobObjectBasicAccountingInformation,
		uintptr(unsafe.Pointer(&a)), uint32(unsafe.Sizeof(a)), nil)
	return err == nil && a.active > 0
}

func (j *job) sweep(grace time.Duration) {
	defer j.close()
	if j.emptyWithin(time.Until(j.asked.Add(grace))) { // asked stays as it is after wait
		return
	}
	j.kill()
	j.emptyWithin(sweepKilled)
}

func (j *job) emptyWithin(d time.Duration) bool {
	limit := time.Now().Add(d)
	for pause := sweepFirst; j.alive(); pause = min(2*pause, sweepMost) {
		left := time.Until(limit)
		if left <= 0 {
			return false
		}
		time.Sleep(min(pause, left))
	}
	return true
}

// close gives the handles back. Whoever is still in the job is ended by it.
func (j *job) close() {
	_ = windows.CloseHandle(j.handle)
	if j.child != 0 {
		_ = windows.CloseHandle(j.child)
	}
}

// outcome tells our own doing from a code of the child's choice.
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

// crashes are the exit codes by which the system tells that a program did not exit by itself.
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

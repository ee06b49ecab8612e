package program

import "syscall"

// endWithAgent has the kernel kill a process when the thread that started it ends, as it does when the agent is killed: a
// program that goes on would write to a card that the next agent has given to a guest.
func endWithAgent(process *syscall.SysProcAttr) { process.Pdeathsig = syscall.SIGKILL }

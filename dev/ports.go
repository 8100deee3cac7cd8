package dev

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
)

// loopback is the only address that anything here listens on.
const loopback = "127.0.0.1"

// PortInUseError means that another program listens where a part should.
type PortInUseError struct {
	// Part is the part's name for people, such as "Temporal".
	Part string
	Port int
	// Setting is the environment variable that moves the part; may be empty.
	Setting string
}

// Error says which port is taken and how to get past it.
func (e *PortInUseError) Error() string {
	text := fmt.Sprintf("%s cannot listen on port %d: another program uses it", e.Part, e.Port)
	if e.Setting == "" {
		return text + "; end that program or choose another port"
	}
	return fmt.Sprintf("%s; end that program or choose another port with %s=%d", text, e.Setting, e.Port+10000)
}

// checkPort returns a *PortInUseError when the port is taken. Port 0 is always
// free. Between the check and the use another program may still take it; the
// part then fails by itself, only with a poorer text.
func checkPort(part string, port int, setting string) error {
	listener, err := net.Listen("tcp", address(port))
	if err == nil {
		return listener.Close()
	}
	return portError(part, port, setting, err)
}

// portError turns the error of a listen call into a *PortInUseError where that
// is what it means.
func portError(part string, port int, setting string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return &PortInUseError{Part: part, Port: port, Setting: setting}
	}
	return fmt.Errorf("%s cannot listen on port %d: %w", part, port, err)
}

// freePort asks the system for a port that nobody uses right now.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", address(0))
	if err != nil {
		return 0, fmt.Errorf("no free port: %w", err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

func address(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }

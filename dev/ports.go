package dev

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
)

// loopback is the only address that any part listens on.
const loopback = "127.0.0.1"

// PortInUseError means that another program uses the port of a part.
type PortInUseError struct {
	// Part is the part's readable name, such as "Temporal".
	Part string
	Port int
	// Setting is the environment variable of the port; may be empty.
	Setting string
}

// Error names the port and the remedy.
func (e *PortInUseError) Error() string {
	text := fmt.Sprintf("%s cannot listen on port %d: another program uses it", e.Part, e.Port)
	if e.Setting == "" {
		return text + "; end that program or choose another port"
	}
	return fmt.Sprintf("%s; end that program or choose another port with %s=%d", text, e.Setting, e.Port+10000)
}

// checkPort returns a *PortInUseError when the port is taken. Port 0 is always free.
// Another program may still take the port after the check; then the part itself fails,
// with a less helpful error.
func checkPort(part string, port int, setting string) error {
	listener, err := net.Listen("tcp", address(port))
	if err == nil {
		return listener.Close()
	}
	return portError(part, port, setting, err)
}

// portError returns a *PortInUseError if a listen call failed because the port is taken.
func portError(part string, port int, setting string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return &PortInUseError{Part: part, Port: port, Setting: setting}
	}
	return fmt.Errorf("%s cannot listen on port %d: %w", part, port, err)
}

// freePort returns a port that is unused now.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", address(0))
	if err != nil {
		return 0, fmt.Errorf("no free port: %w", err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

func address(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }

package peer

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"time"
)

// readyTime is the timeout for a program to listen.
const readyTime = 30 * time.Second

// keptLines limits the kept output of a program for an error.
const keptLines = 10

// Service is a running program that listens. End ends it.
type Service struct {
	name  string
	lines Lines
	read  sync.WaitGroup
	gone  chan struct{}
	said  tail // output and stderr
}

// StartService starts a program and waits until it listens at an address, at most half a minute. The error has the last output of a program
// that does not.
func StartService(ctx context.Context, argv []string, address string) (*Service, error) {
	s := &Service{name: argv[0], gone: make(chan struct{}), said: tail{most: keptLines}}
	lines, err := Command{Argv: argv, Grace: time.Millisecond}.Spawn(ctx, s.said.add) // the end of its stdin does not end it
	if err != nil {
		return nil, err
	}
	s.lines = lines
	s.read.Go(func() {
		defer close(s.gone)
		for {
			line, err := lines.ReadLine()
			if err != nil {
				return
			}
			s.said.add(string(line))
		}
	})
	if err := s.ready(ctx, address); err != nil {
		s.End()
		return nil, err
	}
	return s, nil
}

// End ends the program.
func (s *Service) End() {
	s.lines.Stop()
	s.read.Wait()
}

func (s *Service) ready(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var d net.Dialer
	for {
		c, err := d.DialContext(ctx, "tcp", address)
		if err == nil {
			return c.Close()
		}
		select {
		case <-tick.C:
		case <-s.gone:
			return s.failed("has ended before it listened at " + address)
		case <-ctx.Done():
			return s.failed("does not listen at " + address)
		}
	}
}

func (s *Service) failed(what string) error {
	text := s.name + " " + what
	if last := s.said.last(); len(last) > 0 {
		text += "; it said last: " + strings.Join(last, " | ")
	}
	return errors.New(text)
}

// FreePort returns a free address of loopback.
func FreePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String(), nil
}

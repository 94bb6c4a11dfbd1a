package policies

import "dragoman/proxy"

// frame is what the policies around one request need of memory, in one piece: most requests pass all of them, once. Who comes a
// second time, with a retry, makes his own. A request is served by one goroutine at a time, which is what guards it.
type frame struct {
	logged   once[logged]
	observed once[observed]
	held     once[held]
	retried  once[retried]
	watched  once[watched]
	timed    once[timed]
}

// once is something that is given out once.
type once[T any] struct {
	it   T
	gone bool
}

func (o *once[T]) take() *T {
	if o.gone {
		return new(T)
	}
	o.gone = true
	return &o.it
}

// frameOf gives the frame of an exchange.
func frameOf(ex *proxy.Exchange) *frame {
	f, ok := ex.Frame.(*frame)
	if !ok {
		f = new(frame)
		ex.Frame = f
	}
	return f
}

package httpcall

import (
	"strconv"

	"dragoman/adapters/httpd/http1"
)

// LongestRetry is the longest time that clients are told to wait by servers, in seconds: a day.
const LongestRetry = 24 * 60 * 60

// RetryAfter returns the header Retry-After in seconds, at most LongestRetry; 0 if it is absent or a date.
func RetryAfter(h *http1.Fields) int {
	value := h.Peek("Retry-After")
	if value == nil {
		return 0
	}
	n, err := strconv.Atoi(string(value))
	if err != nil || n < 0 {
		return 0
	}
	return min(n, LongestRetry)
}

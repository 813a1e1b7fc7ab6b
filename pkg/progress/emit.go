package progress

import "fmt"

// Infof tells sink something worth knowing.
func Infof(sink Sink, format string, args ...any) {
	sink.Emit(Event{Kind: Info, Message: fmt.Sprintf(format, args...)})
}

// Warnf tells sink of something that may be wrong, and ends nothing.
func Warnf(sink Sink, format string, args ...any) {
	sink.Emit(Event{Kind: Warning, Message: fmt.Sprintf(format, args...)})
}

// Warn is Warnf for a message as it is, with what to do about it; empty: that is not known.
func Warn(sink Sink, message, hint string) {
	sink.Emit(Event{Kind: Warning, Message: message, Hint: hint})
}

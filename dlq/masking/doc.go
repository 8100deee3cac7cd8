// Package masking hides parts of JSON documents and of texts that quote them. It decides by its arguments
// alone, does no I/O and imports only the standard library.
//
// Everything that it reads was written by strangers. A document that it cannot read is for the caller to hide
// as a whole, and each of its loops takes time in proportion to its input.
package masking

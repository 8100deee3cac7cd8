// Package masking hides parts of JSON documents, and quotes of these parts in texts. It decides by its arguments
// alone, does no I/O and imports only the standard library.
//
// Strangers wrote everything that the package reads. So each loop takes time in proportion to its input, and
// the caller hides a document as a whole if the package cannot read the document.
package masking

package registry

import (
	"context"

	"github.com/twmb/franz-go/pkg/sr"

	"dlqmanager/dlq"
)

// DecodeWith decodes content with the text of a schema.
func DecodeWith(ctx context.Context, format sr.SchemaType, text string, content []byte) error {
	var s *schema
	err := guard(reasonSchema, func() (err error) {
		s, err = compile(ctx, &fetch{format: format, sources: []*source{{text: text}}})
		return err
	})
	if err != nil {
		return err
	}
	return s.decodeInto(&dlq.Decoded{}, content)
}

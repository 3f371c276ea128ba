// This file reads lists of many pages.

package api

import (
	"context"

	"github.com/digitalocean/godo"
)

// PageSize is the largest that the API takes.
const PageSize = 200

// All hands every item of a list to each, page after page. The list is not read at one moment: an item
// may come twice, or be passed over because another one went. Items that matter are asked for by
// themselves.
func All[T any](ctx context.Context, list func(context.Context, *godo.ListOptions) ([]T, *godo.Response, error),
	each func(T) error,
) (total int, err error) {
	for page := 1; ; page++ {
		items, response, err := list(ctx, &godo.ListOptions{Page: page, PerPage: PageSize})
		if err != nil {
			return 0, err
		}
		for _, item := range items {
			if err := each(item); err != nil {
				return 0, err
			}
		}
		total += len(items)
		if len(items) == 0 || response.Links == nil || response.Links.IsLastPage() {
			return total, nil
		}
	}
}

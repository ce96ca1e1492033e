//! The sizes that the tensors of a file of weights determine.

use toml::{Table, Value};

/// The keys of `[model]` that the shapes determine.
///
/// The number of query heads is in no shape, so it stays unknown; only with it can the heads of keys and values be
/// counted, unless a norm of heads has their size. A vocabulary that was padded counts with its padding.
pub(super) fn keys(
    shape: &dyn Fn(&str) -> Option<Vec<usize>>,
    given: &Table,
) -> Vec<(&'static str, Value)> {
    let dim = |name: &str, dim: usize| shape(name).and_then(|shape| shape.get(dim).copied());
    let exists = |block: &usize| shape(&format!("blocks.{block}.mlp.up.weight")).is_some();
    let layers = (0..).take_while(exists).count();
    let hidden = dim("embedding.token", 1);
    let head_size = dim("blocks.0.attention.query_norm.gain", 0);
    let key_width = dim("blocks.0.attention.key.weight", 1);
    let sizes = [
        ("layers", Some(layers).filter(|layers| *layers > 0)),
        ("hidden", hidden),
        ("vocabulary", dim("embedding.token", 0)),
        ("context", dim("embedding.position", 0)),
        ("mlp_hidden", dim("blocks.0.mlp.up.weight", 1)),
        ("head_size", head_size),
        (
            "kv_heads",
            match head_size {
                Some(size) => key_width.and_then(|width| width.checked_div(size)),
                None => kv_heads(key_width, hidden, given),
            },
        ),
    ];
    let sizes = sizes.into_iter().filter_map(|(key, size)| {
        let size = i64::try_from(size?).ok()?;
        Some((key, Value::Integer(size)))
    });
    let is_tied = shape("head.weight").is_none();
    let tied = hidden.map(|_| ("tied_head", Value::Boolean(is_tied)));
    let normed = head_size.map(|_| ("qk_norm", Value::Boolean(true)));
    let post_norm = shape("blocks.0.post_norm1.gain");
    let post_normed = post_norm.map(|_| ("post_norms", Value::Boolean(true)));
    sizes.chain(tied).chain(normed).chain(post_normed).collect()
}

// A key has the width of a query.
fn kv_heads(width: Option<usize>, hidden: Option<usize>, given: &Table) -> Option<usize> {
    let heads = usize::try_from(given.get("heads")?.as_integer()?).ok()?;
    let (whole, hidden) = (width?.checked_mul(heads)?, hidden?);
    whole
        .checked_div(hidden)
        .filter(|_| whole.is_multiple_of(hidden))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn found(tensors: &[(&str, &[usize])], heads: i64) -> Table {
        let tensors: BTreeMap<_, _> = tensors.iter().copied().collect();
        let shape = |name: &str| tensors.get(name).map(|shape| shape.to_vec());
        let given = Table::from_iter([("heads".to_owned(), Value::Integer(heads))]);
        let keys = keys(&shape, &given).into_iter();
        keys.map(|(key, value)| (key.to_owned(), value)).collect()
    }

    #[test]
    fn shapes_determine_all_sizes_but_the_heads() {
        let tensors: [(&str, &[usize]); 5] = [
            ("embedding.token", &[96, 32]),
            ("embedding.position", &[24, 32]),
            ("blocks.0.mlp.up.weight", &[32, 80]),
            ("blocks.1.mlp.up.weight", &[32, 80]),
            ("blocks.0.attention.key.weight", &[32, 16]),
        ];
        let expected = "layers = 2\nhidden = 32\nvocabulary = 96\ncontext = 24\nmlp_hidden = 80\nkv_heads = 2\n\
                        tied_head = true";
        assert_eq!(found(&tensors, 4), expected.parse::<Table>().unwrap());
        // Three query heads cannot share 32 features.
        assert!(found(&tensors, 3).get("kv_heads").is_none());
        let untied = [&tensors[..], &[("head.weight", &[96, 32])]].concat();
        assert_eq!(found(&untied, 4)["tied_head"], Value::Boolean(false));
    }

    #[test]
    fn norms_of_heads_have_their_size() {
        let tensors: [(&str, &[usize]); 3] = [
            ("embedding.token", &[96, 32]),
            ("blocks.0.attention.key.weight", &[32, 24]),
            ("blocks.0.attention.query_norm.gain", &[12]),
        ];
        let found = found(&tensors, 4);
        assert_eq!(found["head_size"], Value::Integer(12));
        assert_eq!(found["kv_heads"], Value::Integer(2));
        assert_eq!(found["qk_norm"], Value::Boolean(true));
    }

    #[test]
    fn a_file_of_something_else_determines_nothing() {
        assert!(found(&[("ids", &[8, 9])], 4).is_empty());
    }
}

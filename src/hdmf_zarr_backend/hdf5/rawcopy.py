class RawPlan(NamedTuple):
    """How a dataset is copied with its chunks as they are.

    Attributes
    ----------
    filters, compressor
        Of the Zarr array; its chunks are ``source.chunks``, its data type that of the dataset, its order "C".
    source : RawH5Source
        Its values.
    """

    filters: list[Config] | None
    compressor: Config | None
    source: RawH5Source


def plan_raw(dataset: Any, description: Description) -> RawPlan | None:
    """Return how ``dataset`` can be copied with its chunks kept as they are, None if HDF5 has to decode it.

    Parameters
    ----------
    dataset : h5py.Dataset
        Any; not kept, unless its file is not a plain local one.
    description : Description
        What `describe` says of it.

    Notes
    -----
    None for: what is not chunked or virtual; text, references and rows with them; types whose bytes are not those of the
    Zarr type (padded compounds, numbers with a layout of their own, terminated text); filters without a counterpart.
    """
    dtype = description.dtype
    if description.kind != "number" or not dataset.shape or dataset.chunks is None or dataset.is_virtual:
        return None
    inner = description.inner
    element = np.dtype((dtype, inner)) if inner else dtype
    pipeline = codecs_of(description.note.get("filters", []), dtype)
    if pipeline is None or not is_same_layout(description.type, element) or not hasattr(dataset.id, "chunk_iter"):
        return None
    size = math.prod(dataset.chunks) * element.itemsize
    if any(size % config["elementsize"] for config in pipeline.codecs if config["id"] == "shuffle"):
        return None
    raw = RawChunks(dataset, inner)
    source = RawH5Source(raw, dtype, pipeline, _fill_bytes(dataset, element)[: dtype.itemsize])
    numbers = [entry[0] for entry in description.note.get("filters", [])]
    if not _edges_known(dataset, source, size) or not _decodes(source, numbers, size):
        return None
    return RawPlan(pipeline.filters, pipeline.compressor, source)


def _fill_bytes(dataset: Any, element: np.dtype[Any]) -> bytes:
    """Return one element that reads where no chunk is stored: HDF5 leaves zeros where it was told never to fill."""
    from h5py import h5d

    created = dataset.id.get_create_plist()
    if (
        created.fill_value_defined() != h5d.FILL_VALUE_USER_DEFINED
        or created.get_fill_time() == h5d.FILL_TIME_NEVER
    ):
        return bytes(element.itemsize)
    value = np.zeros((), dataset.dtype)
    created.get_fill_value(value)
    return value.tobytes()


def _decodes(source: RawH5Source, numbers: list[int], size: int) -> bool:
    """Tell whether what a plugin made is what numcodecs reads, by the smallest chunk; the built-in filters are certain."""
    raw = source.raw
    if not numbers:
        return not len(raw) or bool(np.all(raw.sizes() == size))
    if set(numbers) <= BUILT_IN or not len(raw):
        return True
    filtered = np.flatnonzero(raw.masks() != UNFILTERED)
    if not len(filtered):
        return True
    smallest = filtered[np.argmin(raw.sizes()[filtered])]
    index = next(itertools.islice(raw, int(smallest), None))
    try:
        source.decode(index)
    except ChunkError:
        return False
    return True


def _edges_known(dataset: Any, source: RawH5Source, size: int) -> bool:
    """Find out whether chunks at the edge are filtered (``H5Pset_chunk_opts``), which h5py cannot ask; False: unknown.

    A chunk that was left alone has exactly the size of its values; then decoding it tells, and where only shuffling is left
    to tell from, what HDF5 reads.
    """
    raw, pipeline = source.raw, source.pipeline
    if not pipeline.codecs:
        return True
    partial = raw.is_partial()
    doubtful = np.flatnonzero(partial & (raw.sizes() == size) & (raw.masks() == 0))
    for place in doubtful[:_UNDECIDED]:
        index = next(itertools.islice(raw, int(place), None))
        answer = _is_filtered(dataset, source, index)
        if answer is False:
            raw.set_unfiltered(partial)
        if answer is not None:
            return True
    return len(doubtful) <= _UNDECIDED


def _is_filtered(dataset: Any, source: RawH5Source, index: Index) -> bool | None:
    """Tell whether the chunk at ``index`` is filtered, None where both readings of its bytes are the same."""
    data = source.raw.read(index)
    try:
        decoded = source.decode(index)
    except ChunkError:
        return False
    if decoded.tobytes() == data:
        return None
    if any(config["id"] != "shuffle" for config in source.pipeline.codecs):
        return True
    rank = len(dataset.shape)
    region = tuple(
        slice(i * c, min((i + 1) * c, n)) for i, c, n in zip(index[:rank], dataset.chunks, dataset.shape, strict=True)
    )
    values = np.ascontiguousarray(dataset[region]).tobytes()
    inside = tuple(slice(0, part.stop - part.start) for part in region)
    ours = np.ascontiguousarray(decoded[inside]).tobytes()
    plain = np.frombuffer(data or b"", source.dtype).reshape(source.chunks)[inside]
    if ours == np.ascontiguousarray(plain).tobytes():
        return None
    return ours == values

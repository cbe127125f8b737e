"""Datasets by name, path and synthetic text: what loads, in which direction, and how a bad file is reported."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io  # type: ignore[import-untyped,unused-ignore]
import scipy.sparse as sp  # type: ignore[import-untyped,unused-ignore]

from tvm_gnn.errors import DatasetError, InputError, InputTypeError
from tvm_gnn.graph import Graph, datasets
from tvm_gnn.graph.generators import KINDS

SRC, DST = [0, 2, 2, 1], [1, 0, 1, 2]


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("TVM_GNN_DATA", str(folder))
    return folder


def save_by_source(path: Path, src: list[int], dst: list[int], num_nodes: int, **more: Any) -> None:
    matrix = sp.csr_array((np.ones(len(src)), (src, dst)), shape=(num_nodes, more.get("num_cols", num_nodes)))
    np.savez(path, indptr=matrix.indptr.astype(np.int64), indices=matrix.indices, num_nodes=num_nodes, **more)


def same(graph: Graph, src: list[int], dst: list[int], num_src: int, num_dst: int, listed: bool = False) -> bool:
    """Whether it is that graph, its edges numbered as `listed` or in CSR order."""
    expected = Graph.from_coo(src, dst, num_src=num_src, num_dst=num_dst)
    assert expected.edge_ids is not None
    values = np.arange(len(src))
    order = expected.edge_ids if listed else values
    return graph.signature.exact == expected.signature.exact and np.array_equal(graph.to_csr_order(values), order)


def test_karate_needs_no_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TVM_GNN_DATA", str(tmp_path / "absent"))
    graph = datasets.load("karate")
    assert (graph.num_dst, graph.num_src, graph.num_edges, graph.name) == (34, 34, 156, "karate")
    assert graph.signature.exact == graph.reverse().signature.exact
    assert graph.in_degrees.max() == 17
    assert datasets.names() == ["karate"]


def test_directed_dataset_is_transposed(data_dir: Path) -> None:
    save_by_source(data_dir / "tiny.npz", SRC, DST, 3)
    graph = datasets.load("tiny")
    assert same(graph, SRC, DST, 3, 3)
    assert not same(graph, DST, SRC, 3, 3)
    assert graph.name == "tiny"
    assert datasets.names() == ["karate", "tiny"]


def test_rectangular_dataset(data_dir: Path) -> None:
    save_by_source(data_dir / "wide.npz", [0, 1], [4, 0], 2, num_cols=6)
    assert same(datasets.load("wide"), [0, 1], [4, 0], 2, 6)


def test_scipy_archive_has_rows_as_destinations(tmp_path: Path) -> None:
    for layout in ("csr", "csc", "coo"):
        path = tmp_path / f"{layout}.npz"
        sp.save_npz(path, sp.coo_array((np.zeros(4), (DST, SRC)), shape=(3, 5)).asformat(layout))
        graph = datasets.load(path)
        stored = sp.load_npz(path).tocoo()
        assert graph.signature.exact == Graph.from_coo(SRC, DST, num_src=5, num_dst=3).signature.exact
        # Whatever the layout, edge i is the i-th stored entry.
        assert np.array_equal(graph.to_csr_order(stored.col), graph.indices)


@pytest.mark.parametrize("zipped", [False, True])
def test_matrix_market(tmp_path: Path, zipped: bool) -> None:
    plain = tmp_path / "m.mtx"
    scipy.io.mmwrite(plain, sp.coo_array((np.ones(4), (DST, SRC)), shape=(3, 4)), symmetry="general")
    path = plain
    if zipped:
        path = tmp_path / "m.mtx.gz"
        path.write_bytes(gzip.compress(plain.read_bytes()))
        plain.unlink()
    graph = datasets.load(str(path))
    assert same(graph, SRC, DST, 4, 3, listed=True)
    assert graph.name == "m"


def test_symmetric_matrix_market_is_expanded(tmp_path: Path) -> None:
    path = tmp_path / "s.mtx"
    path.write_text("%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n2 1\n3 3\n")
    graph = datasets.load(path)
    entries = scipy.io.mmread(path)
    assert graph.signature.exact == Graph.from_coo([0, 1, 2], [1, 0, 2]).signature.exact
    assert np.array_equal(graph.to_csr_order(entries.col), graph.indices)


EDGE_LISTS = {
    "snap.txt": "# Directed graph\n# FromNodeId\tToNodeId\n0\t1\n2\t0\n2\t1\n1\t2\n",
    "konect.edges": "% sym weighted\n0 1 5.5 99\n2 0 1 99\n2 1 1 99\n1 2 1 99\n",
    "header.csv": "source,target,weight\n0,1,0.5\n2,0,x\n2,1,\n1,2,1\n",
    "quoted_header.csv": '"src","dst"\n0,1\n2,0\n2,1\n1,2\n',
    "spaced.csv": "0, 1\n2 , 0\n2,1\n1,2\n",
    "tabs.tsv": "0\t1\n2\t0\n2\t1\n1\t2",
    "mixed.el": "0 1\n2,0\n\n2\t1\n# comment in between\n1   2\n",
    "windows.txt": "\ufeff0 1\r\n2 0\r\n2 1\r\n1 2\r\n",
    "indented.txt": "  0 1\n 2 0\n\t2 1\n 1 2 \n",
}


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("name", EDGE_LISTS)
def test_edge_lists(tmp_path: Path, name: str, zipped: bool) -> None:
    content = EDGE_LISTS[name].encode()
    path = tmp_path / (name + ".gz" if zipped else name)
    path.write_bytes(gzip.compress(content) if zipped else content)
    graph = datasets.load(path)
    assert same(graph, SRC, DST, 3, 3, listed=True)
    assert graph.name == name.split(".")[0]


def test_edge_list_keeps_parallel_edges_and_ids(tmp_path: Path) -> None:
    path = tmp_path / "multi.txt"
    path.write_text("7 1\n7 1\n3 3\n")
    graph = datasets.load(path)
    assert graph.signature.exact == Graph.from_coo([7, 7, 3], [1, 1, 3]).signature.exact
    assert (graph.num_edges, graph.num_dst) == (3, 8)


def test_edge_index_archive(tmp_path: Path) -> None:
    path = tmp_path / "pyg.npz"
    np.savez(path, edge_index=np.array([SRC, DST]))
    assert same(datasets.load(path), SRC, DST, 3, 3, listed=True)
    np.savez(path, edge_index=np.array([SRC, DST]), num_nodes=5)
    assert same(datasets.load(path), SRC, DST, 5, 5, listed=True)
    np.savez(path, edge_index=np.array([[0, 2**40], [0, 0]]))
    with pytest.raises(DatasetError, match="Relabel the nodes"):
        datasets.load(path)
    np.savez(path, edge_index=np.array([[0.0, 1.0], [0, 0]]))
    with pytest.raises(DatasetError, match="edge_index: must hold integers"):
        datasets.load(path)


BAD_EDGE_LISTS = {
    "empty": (b"", r"must hold at least one edge"),
    "comments only": (b"# nothing\n", r"must hold at least one edge"),
    "header only": (b"source,target\n", r"must hold at least one edge"),
    "one column": (b"0 1\n5\n", r"line 2: must hold a source and a destination \(got '5'\)"),
    "word": (b"# c\n0 1\n1 x\n", r"line 3: node ids must be integers \(got 'x'\)"),
    "two headers": (b"a,b\nc,d\n0,1\n", r"line 2: node ids must be integers \(got 'c'\)"),
    "decimal": (b"0 1\n1.0 2\n", r"line 2: node ids must be integers \(got '1\.0'\)"),
    "decimals first": (b"0.5 1.5\n0 1\n", r"line 1: node ids must be integers \(got '0\.5'\)"),
    "underscore": (b"0 1\n1_0 2\n", r"line 2: node ids must be integers \(got '1_0'\)"),
    "negative": (b"0 1\n\n1 -2\n", r"line 3: node ids must lie in .* \(got -2\)"),
    "beyond int64": (b"0 1\n9223372036854775808 0\n", r"line 2: node ids must lie in .*9223372036854775808"),
    "far beyond int64": (b"0 1\n1" + b"0" * 500 + b" 0\n", r"line 2: node ids must lie in"),
    "labels as ids": (b"0 1\n123456789012 0\n", r"largest id \+ 1 \(at edge 1\) must be at most .*123456789013"),
    "binary": (b"\x7fELF\x00\x01\x02\n", r"must be text \(got a zero byte on line 1\)"),
    "binary later": (b"0 1\n\x00\x01\xff\n", r"(line 2|zero byte)"),
    "not utf-8": (b"0 1\n\xff\xfe 2\n", r"line 2: node ids must be integers"),
}


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize(("content", "text"), BAD_EDGE_LISTS.values(), ids=BAD_EDGE_LISTS)
def test_bad_edge_list_names_file_and_line(tmp_path: Path, content: bytes, text: str, zipped: bool) -> None:
    path = tmp_path / ("bad.txt.gz" if zipped else "bad.csv")
    path.write_bytes(gzip.compress(content) if zipped else content)
    with pytest.raises(DatasetError, match=text) as caught:
        datasets.load(path)
    assert str(path) in str(caught.value)


def npz_bytes(tmp_path: Path, **arrays: Any) -> bytes:
    path = tmp_path / "made.npz"
    np.savez(path, **arrays)
    return path.read_bytes()


BAD_ARCHIVES = {
    "empty": lambda folder: b"",
    "not a zip": lambda folder: b"PK\x03\x04 but then nothing",
    "text": lambda folder: b"0 1\n",
    "truncated": lambda folder: npz_bytes(folder, indptr=[0, 1], indices=[0], num_nodes=1)[:-40],
    "single array": lambda folder: (
        b"\x93NUMPY\x01\x00v\x00{'descr': '<i8', 'fortran_order': False, 'shape': (0,), }" + b" " * 61 + b"\n"
    ),
    "no graph": lambda folder: npz_bytes(folder, x=[1]),
    "no array": lambda folder: npz_bytes(folder),
    "objects": lambda folder: npz_bytes(
        folder, indptr=np.array([0, None], object), indices=np.zeros(0, int), num_nodes=1
    ),
    "float ids": lambda folder: npz_bytes(folder, indptr=[0, 1], indices=[0.0], num_nodes=1),
    "id too large": lambda folder: npz_bytes(folder, indptr=[0, 1], indices=[3], num_nodes=1),
    "indptr falls": lambda folder: npz_bytes(folder, indptr=[0, 2, 1], indices=[0], num_nodes=2),
    "wrong num_nodes": lambda folder: npz_bytes(folder, indptr=[0, 1], indices=[0], num_nodes=5),
    "two num_nodes": lambda folder: npz_bytes(folder, indptr=[0, 1], indices=[0], num_nodes=[1, 1]),
    "scalar indptr": lambda folder: npz_bytes(folder, indptr=0, indices=[], num_nodes=0),
    "absurd num_cols": lambda folder: npz_bytes(folder, indptr=[0, 1], indices=[0], num_nodes=1, num_cols=2**60),
    "unknown scipy format": lambda folder: npz_bytes(folder, format=b"xyz", shape=[1, 1], data=[1.0]),
}


@pytest.mark.parametrize("make", BAD_ARCHIVES.values(), ids=BAD_ARCHIVES)
def test_bad_archive_is_a_dataset_error(tmp_path: Path, make: Callable[[Path], bytes]) -> None:
    path = tmp_path / "bad.npz"
    path.write_bytes(make(tmp_path))
    with pytest.raises(DatasetError, match=r"bad\.npz"):
        datasets.load(path)


def test_damage_in_a_named_dataset_names_the_file_and_the_position(data_dir: Path) -> None:
    np.savez(data_dir / "hurt.npz", indptr=[0, 1, 2], indices=[0, 7], num_nodes=2)
    with pytest.raises(DatasetError, match=r"hurt\.npz: does not hold a graph: indices: .*got 7 at position 1"):
        datasets.load("hurt")


@pytest.mark.parametrize(
    "content",
    [
        "",
        "not a matrix\n",
        "%%MatrixMarket matrix coordinate pattern general\n2 2 3\n1 1\n",
        "%%MatrixMarket matrix coordinate pattern general\n2 2 1\n3 1\n",
        "%%MatrixMarket matrix coordinate pattern general\n9000000000000 2 1\n3 1\n",
        "%%MatrixMarket matrix array real general\n1 1\n2.0\n",
    ],
)
def test_bad_matrix_market(tmp_path: Path, content: str) -> None:
    path = tmp_path / "bad.mtx"
    path.write_text(content)
    with pytest.raises(DatasetError, match=r"bad\.mtx"):
        datasets.load(path)


@pytest.mark.parametrize("name", ["cut.txt.gz", "cut.mtx.gz"])
def test_truncated_gzip(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    rng = np.random.default_rng(0)
    lines = "".join(f"{u} {v}\n" for u, v in rng.integers(0, 99, (500, 2)))
    path.write_bytes(gzip.compress(lines.encode())[:-300])
    with pytest.raises(DatasetError, match=name):
        datasets.load(path)


def test_unknown_names_are_helped(data_dir: Path) -> None:
    save_by_source(data_dir / "citeseer.npz", SRC, DST, 3)
    with pytest.raises(DatasetError, match=r"got 'citeser'\)\. Did you mean citeseer\?.*TVM_GNN_DATA"):
        datasets.load("citeser")
    with pytest.raises(DatasetError, match="Did you mean karate"):
        datasets.load("karat")
    with pytest.raises(DatasetError, match=r"got 'zzzzzz'\)\. Known are"):
        datasets.load("zzzzzz")
    with pytest.raises(DatasetError, match="got ''"):
        datasets.load("")
    with pytest.raises(InputTypeError, match="dataset: must be a name or a path"):
        datasets.load(3)  # type: ignore[arg-type]


def test_paths_that_are_no_file(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"absent\.txt: must be a file \(got nothing there\)"):
        datasets.load(tmp_path / "absent.txt")
    with pytest.raises(DatasetError, match="must be a file"):
        datasets.load("absent.mtx")
    with pytest.raises(DatasetError, match=r"the suffix must be one of \.npz, \.mtx"):
        datasets.load(tmp_path / "graph.parquet")
    (tmp_path / "folder.txt").mkdir()
    with pytest.raises(DatasetError, match="got a folder there"):
        datasets.load(tmp_path / "folder.txt")


@pytest.mark.parametrize("kind", KINDS)
def test_generators_are_deterministic_with_defaults(kind: str) -> None:
    a, b = datasets.load(f"synthetic:{kind}"), datasets.load(f"synthetic:{kind}")
    assert a.signature.exact == b.signature.exact
    assert a.num_edges > 0
    assert a.name == f"synthetic:{kind}"
    assert a.edge_ids is None


@pytest.mark.parametrize("kind", ["rmat:scale=8", "uniform:n=200", "powerlaw:n=200", "batch:graphs=9"])
def test_seeds_differ(kind: str) -> None:
    digests = {datasets.load(f"synthetic:{kind},seed={seed}").signature.exact for seed in range(3)}
    assert len(digests) == 3


@pytest.mark.parametrize("kind", ["grid", "star", "path", "batch", "powerlaw:n=500"])
def test_undirected_kinds_are_symmetric(kind: str) -> None:
    graph = datasets.load(f"synthetic:{kind}")
    assert graph.signature.exact == graph.reverse().signature.exact


def test_generators_make_what_they_say() -> None:
    star = datasets.load("synthetic:star:n=10")
    assert star.in_degrees.tolist() == [9] + [1] * 9
    assert datasets.load("synthetic:path:n=4").in_degrees.tolist() == [1, 2, 2, 1]
    grid = datasets.load("synthetic:grid:rows=3,cols=4")
    assert (grid.num_dst, grid.num_edges) == (12, 2 * (3 * 3 + 2 * 4))
    assert datasets.load("synthetic:rmat:scale=10,edge_factor=4").num_dst == 1024
    assert datasets.load("synthetic:rmat:scale=10").stats.degree_cv > 1.5
    uniform = datasets.load("synthetic:uniform:n=2000,degree=10")
    assert uniform.stats.degree_mean == pytest.approx(10, rel=0.02)
    assert uniform.stats.degree_cv < 0.5
    assert datasets.load("synthetic:powerlaw:n=3000").stats.degree_gini > 0.45
    assert datasets.load("synthetic:star:n=1").num_edges == 0


def test_batch_is_block_diagonal() -> None:
    one = datasets.load("synthetic:batch:graphs=30,n=10,seed=5")
    components, _ = sp.csgraph.connected_components(
        sp.csr_array((np.ones(one.num_edges), one.indices, one.indptr), shape=(one.num_dst, one.num_src))
    )
    assert components == 30
    assert 150 <= one.num_dst <= 450


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("synthetic:", r"synthetic kind: must be one of batch, grid, path, .* \(got ''\)"),
        ("synthetic:ramt", r"must be one of .* \(got 'ramt'\)"),
        ("synthetic:rmat:scal=3", r"synthetic:rmat: takes key=value of scale=14, edge_factor=16.* \(got 'scal=3'\)"),
        ("synthetic:rmat:14", r"takes key=value .* \(got '14'\)"),
        ("synthetic:rmat:scale=big", r"scale must be an integer in \[1, \d+\] \(got 'big'\)"),
        ("synthetic:rmat:scale=1.5", r"scale must be an integer .* \(got '1\.5'\)"),
        ("synthetic:rmat:scale=40", r"edge_factor \* 2\*\*scale must be <="),
        ("synthetic:rmat:scale=0", r"scale must be an integer in \[1"),
        ("synthetic:rmat:a=0.9,b=0.9", r"a \+ b \+ c must be at most 1"),
        ("synthetic:rmat:a=nan", r"a must be a number .*\(got 'nan'\)"),
        ("synthetic:rmat:scale=3,scale=4", r"scale must be given once"),
        ("synthetic:uniform:n=-5", r"n must be an integer in \[1, \d+\] \(got '-5'\)"),
        ("synthetic:uniform:n=2000000000,degree=2000000000", r"n \* degree must be <="),
        ("synthetic:powerlaw:exponent=1", r"exponent must be above 1"),
        ("synthetic:grid:rows=2000000000", r"rows \* cols must be <="),
        ("synthetic:batch:graphs=2000000000", r"graphs \* \(n \+ rings\) must be <="),
        ("synthetic:path:n=", r"n must be an integer in .*\(got ''\)"),
    ],
)
def test_bad_synthetic_text(text: str, match: str) -> None:
    with pytest.raises(DatasetError, match=match):
        datasets.load(text)


@pytest.mark.parametrize("name", ["~nouser_of_this_name/g.npz", "a" * 300, "a" * 300 + ".npz", "/" + "b/" * 3000])
def test_names_that_no_file_can_have_are_refused(name: str) -> None:
    with pytest.raises(InputError, match=r"got|must"):
        datasets.load(name)


def test_anything_but_an_archive_is_called_so(tmp_path: Path) -> None:
    path = tmp_path / "noise.npz"
    path.write_bytes(b"\x80\x04not an archive")
    with pytest.raises(DatasetError, match="must be an archive of arrays") as caught:
        datasets.load(path)
    assert "pickle" not in str(caught.value)

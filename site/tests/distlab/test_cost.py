"""Scaling arithmetic against module 26's worked example, nccl-tests' definitions and ring bytes."""

import pytest

from distlab import cost, ring

EXAMPLE = cost.Case()


def test_the_worked_example_takes_17_and_a_half_milliseconds_to_all_reduce():
    assert EXAMPLE.gradient_bytes == 2e9
    assert cost.times(EXAMPLE).communication == pytest.approx(17.5e-3, rel=1e-12)


@pytest.mark.parametrize(
    ("tokens", "six_ms", "four_ms", "of_compute", "of_backward"),
    [
        (16384, 245.8, 163.8, 7.1, 10.7),
        (4096, 61.4, 41.0, 28, 43),
        (2048, 30.7, 20.5, 57, 85),
        (1024, 15.4, 10.2, 114, 171),
    ],
)
def test_the_table_of_the_worked_example_is_reproduced(
    tokens, six_ms, four_ms, of_compute, of_backward
):
    ((_, row),) = cost.by_tokens(EXAMPLE, [tokens])

    assert row.compute * 1e3 == pytest.approx(six_ms, abs=0.05)
    assert row.backward * 1e3 == pytest.approx(four_ms, abs=0.05)
    assert 100 * row.communication / row.compute == pytest.approx(of_compute, abs=0.5)
    assert 100 * row.communication / row.backward == pytest.approx(of_backward, abs=0.5)


def test_break_even_is_1750_tokens_whatever_the_number_of_parameters():
    for parameters in (1e6, 1e9, 7e10):
        case = cost.Case(parameters=parameters)
        assert cost.break_even_tokens(case) == pytest.approx(1750, rel=1e-12)


def test_at_break_even_communication_is_hidden_and_one_token_less_exposes_some():
    at = cost.times(cost.Case(tokens=1750))
    below = cost.times(cost.Case(tokens=1749))

    assert at.exposed == pytest.approx(0, abs=1e-15)
    assert below.hidden_fraction == pytest.approx(1749 / 1750, rel=1e-12)
    assert below.overlapped_step == pytest.approx(below.compute + below.communication / 1750)


def test_overlap_saves_what_it_hides_and_nothing_is_lost():
    for tokens in (1, 1000, 1750, 16384):
        row = cost.times(cost.Case(tokens=tokens))
        assert row.hidden + row.exposed == pytest.approx(row.communication)
        assert row.naive_step - row.overlapped_step == pytest.approx(row.hidden)


@pytest.mark.parametrize("collective", ring.PHASES)
@pytest.mark.parametrize("world_size", range(1, 9))
def test_the_bus_factor_is_what_the_ring_sends_in_units_of_the_tensor(collective, world_size):
    sent = ring.ring_bytes(collective, world_size, 10**9) / 10**9

    assert cost.bus_factor(collective, world_size) == pytest.approx(float(sent), rel=1e-12)


def test_bus_bandwidth_is_the_inverse_of_the_time_and_equals_algorithm_bandwidth_at_two_ranks():
    for world_size in (2, 3, 8):
        seconds = cost.collective_seconds("all_reduce", 1e9, world_size, 50e9)
        assert cost.bus_bandwidth("all_reduce", 1e9, world_size, seconds) == pytest.approx(50e9)
    seconds = cost.collective_seconds("all_reduce", 1e9, 2, 50e9)
    assert cost.algorithm_bandwidth(1e9, seconds) == pytest.approx(50e9)


@pytest.mark.parametrize(
    ("precision", "optimizer", "parts"),
    [
        ("float32", "adam", [4, 4, 4, 4]),
        ("mixed", "adam", [2, 2, 4, 4, 4]),
        ("bfloat16", "adam", [2, 2, 2, 2]),
        ("float32", "sgd with momentum", [4, 4, 4]),
        ("mixed", "sgd with momentum", [2, 2, 4, 4]),
        ("float32", "sgd", [4, 4]),
    ],
)
def test_memory_is_itemised(precision, optimizer, parts):
    items = cost.memory(cost.Case(precision=precision, optimizer=optimizer))

    assert [item.bytes_per_parameter for item in items] == parts
    assert cost.per_rank(items)[0] == sum(parts) * 1e9


def test_both_ways_of_training_with_adam_cost_16_bytes_per_parameter():
    for precision in ("float32", "mixed"):
        assert cost.bytes_per_parameter(cost.memory(cost.Case(precision=precision))) == 16


def test_zero_stages_give_the_sizes_of_the_zero_paper():
    """Its figure 1: 7.5 billion parameters on 64 ranks: 120, 31.4, 16.6 and 1.9 GB."""
    items = cost.memory(cost.Case(parameters=7.5e9, world_size=64))

    assert [round(stage / 1e9, 1) for stage in cost.per_rank(items)] == [120.0, 31.4, 16.6, 1.9]


def test_the_bucket_copy_is_one_more_gradient_and_only_in_ddp():
    with_copy = cost.per_rank(cost.memory(EXAMPLE, bucket_copy=True))
    without = cost.per_rank(cost.memory(EXAMPLE))

    assert with_copy[0] - without[0] == EXAMPLE.gradient_bytes
    assert with_copy[1:] == without[1:]


def test_one_rank_has_nothing_to_communicate_or_shard():
    alone = cost.Case(world_size=1)

    assert cost.times(alone).communication == 0
    assert cost.times(alone).hidden_fraction == 1
    assert len(set(cost.per_rank(cost.memory(alone)))) == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cost.Case(parameters=0), "parameters is 0"),
        (lambda: cost.Case(tokens=float("nan")), "tokens is nan"),
        (lambda: cost.Case(bus_bandwidth=float("inf")), "bus_bandwidth is inf"),
        (lambda: cost.Case(world_size=2.5), "world_size is 2.5"),
        (lambda: cost.Case(precision="fp8"), "no precision named 'fp8'"),
        (lambda: cost.Case(optimizer="lion"), "no optimizer named 'lion'"),
        (lambda: cost.bus_factor("barrier", 2), "no collective named 'barrier'"),
        (lambda: cost.bus_factor("all_reduce", 0), "world size is 0"),
    ],
)
def test_bad_input_names_the_value_and_the_rule(call, message):
    with pytest.raises(ValueError, match=message):
        call()

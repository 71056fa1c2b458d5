/* Scaling arithmetic, as in code/distlab/cost.py, which says where each formula comes from. A test
   compares the two over a grid. `tables` are Python's: sizes, precisions, optimizer states. */

export function gradientBytes(setup, tables) {
  return setup.parameters * tables.dtype_bytes[tables.precisions[setup.precision][0]];
}

export function times(setup, tables) {
  const perFlop = (setup.parameters * setup.tokens) / setup.flops;
  const factor = (tables.all_reduce_phases * (setup.world_size - 1)) / setup.world_size;
  const communication = (gradientBytes(setup, tables) * factor) / setup.bus_bandwidth;
  const forward = tables.flops.forward * perFlop;
  const backward = tables.flops.backward * perFlop;
  const hidden = Math.min(communication, backward);
  return {
    communication, forward, backward, hidden,
    compute: forward + backward,
    exposed: communication - hidden,
    hidden_fraction: communication ? hidden / communication : 1,
    overlapped_step: forward + backward + communication - hidden,
    naive_step: forward + backward + communication,
  };
}

export function breakEvenTokens(setup, tables) {
  const one = times({ ...setup, tokens: 1 }, tables);
  return one.communication / one.backward;
}

/* [{name, bytes_per_parameter, per_rank: [DDP, ZeRO-1, ZeRO-2, ZeRO-3]}], in bytes. */
export function memory(setup, tables, bucketCopy = false) {
  const [dtype, master, states] = tables.precisions[setup.precision];
  const parts = [[`weights, ${dtype}`, dtype, "weights"], [`gradients, ${dtype}`, dtype, "gradients"]];
  if (master) parts.push([`master weights, ${master}`, master, "optimizer"]);
  for (const name of tables.optimizer_states[setup.optimizer]) parts.push([`${name}, ${states}`, states, "optimizer"]);
  const items = parts.map(([name, kind, part]) => item(setup, tables, name, kind, part));
  if (bucketCopy) {
    const size = tables.dtype_bytes[dtype];
    items.push({ name: `DDP buckets, ${dtype}`, bytes_per_parameter: size, per_rank: [setup.parameters * size, 0, 0, 0] });
  }
  return items;
}

function item(setup, tables, name, kind, part) {
  const size = tables.dtype_bytes[kind];
  const whole = setup.parameters * size;
  const shard = whole / setup.world_size;
  const per_rank = [0, 1, 2, 3].map((stage) => (stage < tables.sharded_from[part] ? whole : shard));
  return { name, bytes_per_parameter: size, per_rank };
}

/* All its digits, thousands in commas. */
export function plain(value) {
  return value.toLocaleString("en-US", { maximumFractionDigits: 20 });
}

/* Three significant digits, thousands in commas. Both are written as Python's markup does. */
export function three(value) {
  return plain(Number(value.toPrecision(3)));
}

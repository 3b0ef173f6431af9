// Does this page compute what the engine does? Every number of the engine that the page brings
// along is computed once more; the answer is the largest difference.

const ALLOWED = 1e-5;

function disagreement(network, cases) {
  let most = 0;
  const compare = (mine, known) => {
    const apart = Math.abs(mine - known);
    most = Math.max(most, Number.isNaN(apart) ? Infinity : apart);
  };
  for (const known of cases) {
    const relaxation = new Relaxation(network, decode(known.x), { ...FREE, ...known.knobs });
    for (const moment of known.moments) {
      while (relaxation.steps < moment.steps) relaxation.step();
      decode(moment.state).forEach((value, k) => compare(relaxation.state[k], value));
      decode(moment.outputs).forEach((value, k) => compare(relaxation.answer()[k], value));
      compare(relaxation.history.at(-1).energy, moment.energy);
      compare(relaxation.residual, moment.residual);
    }
  }
  return most;
}

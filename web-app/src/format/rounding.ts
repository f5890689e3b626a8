// Rounding as Python does it: to the nearest, halves to even. JavaScript's own methods round halves up.

const MORE = 50; // digits that tell a half from what is nearly one: a double that is a half has fewer

/** The number that is nearest to `value` among those of so many significant digits: Python's `float(f"{value:.3g}")`. */
export function toPrecision(value: number, digits: number): number {
  const [mantissa = "", exponent = "0"] = value.toExponential(digits - 1 + MORE).split("e");
  const kept = mantissa.slice(0, mantissa.length - MORE);
  return isHalf(mantissa.slice(-MORE)) && endsEven(kept)
    ? Number(`${kept}e${exponent}`)
    : Number(value.toExponential(digits - 1));
}

/** As Python's `f"{value:.{places}f}"`. */
export function toFixed(value: number, places: number): string {
  const exact = value.toFixed(places + MORE);
  const kept = exact.slice(0, -MORE).replace(/\.$/, "");
  return isHalf(exact.slice(-MORE)) && endsEven(kept) ? kept : value.toFixed(places);
}

function isHalf(rest: string): boolean {
  return /^50*$/.test(rest);
}

function endsEven(digits: string): boolean {
  return "02468".includes(digits.replace(/\.$/, "").at(-1) ?? "");
}

"""Islands of trees and rows, and the normal equations, block by block: a block per island."""
